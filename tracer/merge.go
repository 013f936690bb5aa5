package tracer

import (
	"slices"

	"github.com/memtrace/memtrace/tracer/event"
)

// merger puts the events of many rings into order of time.
//
// A record's time is read after its place in the ring was reserved. So once a
// ring was read up to its end, where the end was looked up after time T, no
// record older than T can still come from it: T is the ring's watermark, and
// what is older than the lowest watermark may be handed out. A ring whose
// reading stopped at an unfinished record keeps its older watermark.
//
// Within a ring, times are almost in order: only a producer that is preempted
// between reserving and reading the clock is late, and its event is sorted in.
type merger struct {
	queues []queue
	turns  []turn // a heap, reused: see release
}

// turn is a queue's place among the others: by its oldest event, then by its number.
type turn struct {
	time  uint64
	queue int
}

func (t turn) before(o turn) bool {
	return t.time < o.time || t.time == o.time && t.queue < o.queue
}

type queue struct {
	events    []event.Event // sorted; those before head are handed out
	head      int
	watermark uint64
	cpu       uint16
}

func newMerger(rings int) *merger {
	return &merger{queues: make([]queue, rings)}
}

// slot returns the place for the next event of a queue, which may hold an
// event of the past; sortIn moves it to its place.
func (q *queue) slot() *event.Event {
	n := len(q.events)
	if n == q.head || n == cap(q.events) {
		n = q.makeRoom()
	}
	q.events = q.events[:n+1]
	return &q.events[n]
}

// makeRoom has room for one event more, and returns how many there are.
func (q *queue) makeRoom() int {
	if q.head == len(q.events) {
		q.events, q.head = q.events[:0], 0
	}
	if len(q.events) == cap(q.events) {
		q.compact()
		q.events = slices.Grow(q.events, 1)
	}
	return len(q.events)
}

// compact reuses the space of handed-out events if there is much of it.
func (q *queue) compact() {
	if q.head < len(q.events)/2 {
		return
	}
	n := copy(q.events, q.events[q.head:])
	q.events, q.head = q.events[:n], 0
}

func (q *queue) drop() {
	q.events = q.events[:len(q.events)-1]
}

func (q *queue) sortIn() {
	i := len(q.events) - 1
	for i > q.head && q.events[i].Time < q.events[i-1].Time {
		q.events[i], q.events[i-1] = q.events[i-1], q.events[i]
		i--
	}
}

// watermark is the time before which every event has been read.
func (m *merger) watermark() uint64 {
	low := ^uint64(0)
	for i := range m.queues {
		low = min(low, m.queues[i].watermark)
	}
	return low
}

// pending is the number of events not yet handed out.
func (m *merger) pending() int {
	n := 0
	for i := range m.queues {
		n += len(m.queues[i].events) - m.queues[i].head
	}
	return n
}

// release appends all events older than limit to dst, in order, and returns
// it. Where dst has no room left, more takes it and gives another one; none
// with room means to stop, and what was not appended stays. The queues stand in
// a heap, so that a machine with many CPUs costs a run of events from one of
// them the logarithm of their number.
func (m *merger) release(limit uint64, dst []event.Event, more func(full []event.Event) []event.Event) []event.Event {
	for h := m.lineUp(limit); len(h) > 0; sink(h, 0) {
		q := &m.queues[h[0].queue]
		until := limit - 1 // an event at a time is handed out before others' of the same time
		for _, next := range h[1:min(len(h), 3)] {
			until = min(until, next.time)
		}
		for first := true; first || q.head < len(q.events) && q.events[q.head].Time <= until; first = false {
			if len(dst) == cap(dst) {
				if dst = more(dst); len(dst) == cap(dst) {
					return dst
				}
			}
			dst = dst[:len(dst)+1]
			dst[len(dst)-1] = q.events[q.head]
			q.head++
		}
		if q.head < len(q.events) && q.events[q.head].Time < limit {
			h[0].time = q.events[q.head].Time
		} else {
			h[0] = h[len(h)-1]
			h = h[:len(h)-1]
		}
	}
	return dst
}

// lineUp makes the heap of the queues that have events before limit.
func (m *merger) lineUp(limit uint64) []turn {
	m.turns = m.turns[:0]
	for i := range m.queues {
		q := &m.queues[i]
		if q.head < len(q.events) && q.events[q.head].Time < limit {
			m.turns = append(m.turns, turn{q.events[q.head].Time, i})
		}
	}
	for i := len(m.turns)/2 - 1; i >= 0; i-- {
		sink(m.turns, i)
	}
	return m.turns
}

// sink restores the heap's order below place i.
func sink(h []turn, i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h); child++ {
			if h[child].before(h[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}
