//go:build linux && !viewer

package main

import (
	"cmp"
	"slices"
	"time"

	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/tracer/event"
)

const (
	// maxThreads is how many threads are told apart. Those that come later are one row.
	maxThreads = 4096
	// namedThreads is how many of them, those that allocated most, have their names read anew for each Report.
	namedThreads = 64
)

type threadID struct{ pid, tid uint32 }

// threadSums count what each thread allocates, for the live screen. What a block's thread was is not kept with the block: so what of it lives is
// not known by thread, and Reports have nothing of threads.
type threadSums struct {
	of      map[threadID]*threadSum
	others  threadSum
	sampled bool
	at      time.Time // of the last list
	// name is a thread's name by now; "" where it can't be read any more.
	name func(pid, tid int) string
}

type threadSum struct {
	render.ThreadSum
	before uint64 // AllocBytes in the last list
}

func newThreadSums(name func(pid, tid int) string) *threadSums {
	return &threadSums{of: make(map[threadID]*threadSum), at: time.Now(), name: name}
}

// add counts the calls that returned memory.
func (t *threadSums) add(events []event.Event) {
	for i := range events {
		e := &events[i]
		if e.Kind != event.Alloc && e.Kind != event.Realloc || e.Addr == 0 {
			continue
		}
		s := t.sum(threadID{e.PID, e.TID})
		s.AllocCount, s.AllocBytes = s.AllocCount+1, s.AllocBytes+e.Size
		t.sampled = t.sampled || e.Interval() != 0
	}
}

func (t *threadSums) sum(id threadID) *threadSum {
	s := t.of[id]
	switch {
	case s != nil:
		return s
	case len(t.of) >= maxThreads:
		return &t.others
	}
	s = &threadSum{ThreadSum: render.ThreadSum{PID: int(id.pid), TID: int(id.tid), Name: t.name(int(id.pid), int(id.tid))}} // it may soon have ended
	t.of[id] = s
	return s
}

// list are all threads, those that allocated most first.
func (t *threadSums) list(now time.Time) []render.ThreadSum {
	elapsed := now.Sub(t.at).Seconds()
	t.at = now
	sums := make([]*threadSum, 0, len(t.of)+1)
	for _, s := range t.of {
		sums = append(sums, s)
	}
	slices.SortFunc(sums, func(a, b *threadSum) int {
		return cmp.Or(cmp.Compare(b.AllocBytes, a.AllocBytes), cmp.Compare(b.AllocCount, a.AllocCount), cmp.Compare(a.PID, b.PID), cmp.Compare(a.TID, b.TID))
	})
	if t.others.AllocCount > 0 {
		sums = append(sums, &t.others)
	}
	out := make([]render.ThreadSum, len(sums))
	for i, s := range sums {
		if s.TID != 0 && (i < namedThreads || s.Name == "") {
			s.Name = cmp.Or(t.name(s.PID, s.TID), s.Name)
		}
		if elapsed > 0 {
			s.PerSecond = uint64(float64(s.AllocBytes-s.before) / elapsed)
		}
		s.before = s.AllocBytes
		out[i] = s.ThreadSum
	}
	return out
}

// threadName names a thread of a process under trace.
func (s *session) threadName(pid, tid int) string {
	t := s.targets[pid]
	if t == nil || t.exited {
		return ""
	}
	name, _ := t.held.TaskComm(tid) // a thread that has ended has none
	return name
}
