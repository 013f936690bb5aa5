package tracer

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/memtrace/memtrace/tracer/event"
)

// add puts an event with this time into a queue.
func (q *queue) add(time uint64) {
	*q.slot() = event.Event{Time: time, Addr: time}
	q.sortIn()
}

// collect releases up to limit and returns the times.
func (m *merger) collect(limit uint64) (times []uint64) {
	note := func(full []event.Event) []event.Event {
		for i := range full {
			times = append(times, full[i].Time)
		}
		return make([]event.Event, 0, 3)
	}
	note(m.release(limit, nil, note))
	return times
}

func TestMergeOrdersAcrossRings(t *testing.T) {
	m := newMerger(3)
	for i, times := range [][]uint64{{1, 4, 5, 9}, {2, 3, 10}, {6, 7, 8}} {
		for _, time := range times {
			m.queues[i].add(time)
		}
	}
	if got := m.collect(9); !slices.Equal(got, []uint64{1, 2, 3, 4, 5, 6, 7, 8}) {
		t.Errorf("before 9: %v", got)
	}
	if got := m.pending(); got != 2 {
		t.Errorf("%d events wait, want those of 9 and 10", got)
	}
	if got := m.collect(^uint64(0)); !slices.Equal(got, []uint64{9, 10}) {
		t.Errorf("the rest: %v", got)
	}
}

// TestMergeSortsLateEvents: a producer that was preempted between taking its
// place and reading the clock has an older neighbour behind it.
func TestMergeSortsLateEvents(t *testing.T) {
	m := newMerger(2)
	for _, time := range []uint64{10, 50, 20, 30, 40} {
		m.queues[0].add(time)
	}
	m.queues[1].add(25)
	if got := m.collect(^uint64(0)); !slices.Equal(got, []uint64{10, 20, 25, 30, 40, 50}) {
		t.Errorf("got %v", got)
	}
}

// TestMergeWaitsForStuckRing: what a ring may still bring holds back the
// younger events of all others.
func TestMergeWaitsForStuckRing(t *testing.T) {
	m := newMerger(2)
	m.queues[0].watermark, m.queues[1].watermark = 100, 100
	for _, time := range []uint64{90, 110, 190} {
		m.queues[0].add(time)
	}
	m.queues[0].watermark = 200 // the other ring has an unfinished record
	if got := m.collect(m.watermark()); !slices.Equal(got, []uint64{90}) {
		t.Errorf("before the stuck ring's watermark: %v", got)
	}
	m.queues[1].add(105)
	m.queues[1].watermark = 200
	if got := m.collect(m.watermark()); !slices.Equal(got, []uint64{105, 110, 190}) {
		t.Errorf("after it: %v", got)
	}
}

func TestMergeKeepsWhatIsNotTaken(t *testing.T) {
	m := newMerger(2)
	for time := uint64(1); time <= 6; time++ {
		m.queues[time%2].add(time)
	}
	taken := m.release(^uint64(0), make([]event.Event, 0, 4), func([]event.Event) []event.Event { return nil })
	if got := m.pending(); taken != nil || got != 2 {
		t.Errorf("%d events came after the end, %d are left", len(taken), got)
	}
	if got := m.collect(^uint64(0)); !slices.Equal(got, []uint64{5, 6}) {
		t.Errorf("got %v", got)
	}
}

// TestMergeDropsMalformed: a slot that is given back leaves no event.
func TestMergeDropsMalformed(t *testing.T) {
	m := newMerger(1)
	m.queues[0].add(1)
	m.queues[0].slot().Time = 2
	m.queues[0].drop()
	m.queues[0].add(3)
	if got := m.collect(^uint64(0)); !slices.Equal(got, []uint64{1, 3}) {
		t.Errorf("got %v", got)
	}
}

// TestMergeAtRandom compares with a sort, over many rounds of reading.
func TestMergeAtRandom(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	m := newMerger(4)
	var sent, got []uint64
	for round := uint64(1); round <= 200; round++ {
		base := round * 1000
		for i := range m.queues {
			for range random.IntN(40) {
				// Times go back by up to 300, but never behind the watermark.
				time := base + random.Uint64N(999)
				m.queues[i].add(time)
				sent = append(sent, time)
			}
			m.queues[i].watermark = base + 1000
		}
		got = append(got, m.collect(m.watermark())...)
	}
	slices.Sort(sent)
	if !slices.Equal(got, sent) {
		t.Errorf("%d events came out, %d went in, or their order is wrong", len(got), len(sent))
	}
}
