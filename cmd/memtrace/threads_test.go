//go:build linux && !viewer

package main

import (
	"slices"
	"testing"
	"time"

	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/tracer/event"
)

func TestThreadSums(t *testing.T) {
	names := map[int]string{10: "main", 11: "worker"}
	sums := newThreadSums(func(_, tid int) string { return names[tid] })
	began := sums.at
	sums.add([]event.Event{
		{Kind: event.Alloc, PID: 10, TID: 10, Addr: 1, Size: 100},
		{Kind: event.Alloc, PID: 10, TID: 11, Addr: 2, Size: 1000},
		{Kind: event.Realloc, PID: 10, TID: 11, Old: 2, Addr: 3, Size: 3000},
		{Kind: event.Realloc, PID: 10, TID: 11, Addr: 4, Size: 5}, // of no block
		{Kind: event.Realloc, PID: 10, TID: 11, Old: 4},           // frees it
		{Kind: event.Free, PID: 10, TID: 10, Addr: 3},
		{Kind: event.AllocFailed, PID: 10, TID: 10, Size: 1 << 40},
		{Kind: event.Fault, PID: 10, TID: 10, Addr: 1},
	})
	want := []render.ThreadSum{
		{PID: 10, TID: 11, Name: "worker", AllocBytes: 4005, AllocCount: 3, PerSecond: 2002},
		{PID: 10, TID: 10, Name: "main", AllocBytes: 100, AllocCount: 1, PerSecond: 50},
	}
	if got := sums.list(began.Add(2 * time.Second)); !slices.Equal(got, want) || sums.sampled {
		t.Errorf("got %+v, sampled %v, want %+v", got, sums.sampled, want)
	}
	delete(names, 11) // it has ended
	sums.add([]event.Event{{Kind: event.Alloc, PID: 10, TID: 10, Addr: 5, Size: 7000, Child: 4096}})
	want = []render.ThreadSum{
		{PID: 10, TID: 10, Name: "main", AllocBytes: 7100, AllocCount: 2, PerSecond: 7000},
		{PID: 10, TID: 11, Name: "worker", AllocBytes: 4005, AllocCount: 3},
	}
	if got := sums.list(began.Add(3 * time.Second)); !slices.Equal(got, want) || !sums.sampled {
		t.Errorf("later: got %+v, sampled %v, want %+v", got, sums.sampled, want)
	}
}

// However many threads a program has, so many are told apart; what the others do is in one row, the last.
func TestThreadSumsAreBounded(t *testing.T) {
	sums := newThreadSums(func(int, int) string { return "" })
	for tid := uint32(1); tid <= maxThreads+10; tid++ {
		sums.add([]event.Event{{Kind: event.Alloc, PID: 1, TID: tid, Addr: uint64(tid), Size: 8}})
	}
	got := sums.list(time.Now())
	if last := got[len(got)-1]; len(got) != maxThreads+1 || last.TID != 0 || last.AllocCount != 10 || last.AllocBytes != 80 {
		t.Errorf("%d rows, the last %+v", len(got), last)
	}
}
