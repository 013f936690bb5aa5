package analyzer

import (
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/tracer/event"
)

// A phase may leave out blocks without recording any of the sample.
func TestLeftOutBlocksAreNotSeen(t *testing.T) {
	a := New(Config{Counted: true})
	onTape(t, a)
	defer a.Close()
	a.AddProcess(ProcessInfo{PID: 1})
	if !a.sawAll(a.byPID[1]) {
		t.Error("not all blocks are said to be seen, though nothing was left out")
	}
	a.SetLeftOut(report.LeftOut{Alloc: 1})
	if a.sawAll(a.byPID[1]) {
		t.Error("all blocks are said to be seen, and one was left out")
	}
}

// What is left out is counted, so that events are exact while blocks are estimates.
func TestLeftOutCallsAreEvents(t *testing.T) {
	const interval = 64 << 10
	a := New(Config{Counted: true})
	onTape(t, a)
	defer a.Close()
	a.AddProcess(ProcessInfo{PID: 1})
	a.Apply([]event.Event{
		{Kind: event.Alloc, PID: 1, Time: 10, Addr: 0x1000, Size: 100},
		{Kind: event.Free, PID: 1, Time: 20, Addr: 0x9000}, // of a block from before the attach
		{Kind: event.Alloc, PID: 1, Time: 30, Addr: 0x2000, Size: 100, Child: interval},
		{Kind: event.Free, PID: 1, Time: 40, Addr: 0x3000, Child: interval}, // of one that was left out and forgotten
		{Kind: event.Realloc, PID: 1, Time: 50, Began: 45, Old: 0x4000, Addr: 0x5000, Size: 8},
		{Kind: event.Realloc, PID: 1, Time: 60, Began: 55, Old: 0x1000, Flags: event.FlagOldOnly, Child: interval},
		{Kind: event.Free, PID: 1, Time: 70, Addr: 0x2000, Child: interval},
	})
	a.SetLeftOut(report.LeftOut{Alloc: 1000, Free: 999, Realloc: 1})
	r := a.reportAt(100, ReportOptions{}, nil)
	e := r.Events
	if e.Alloc != 1002 || e.Free != 1002 || e.Realloc != 2 {
		t.Errorf("%d allocations, %d frees, %d reallocations, want 1002, 1002 and 2", e.Alloc, e.Free, e.Realloc)
	}
	if e.UnmatchedFree != 1 {
		t.Errorf("%d unmatched frees, want the one from before the sample", e.UnmatchedFree)
	}
	h := r.Processes[0].Heap
	if r.Sampling == nil || h.Estimate == nil || h.AllocCount < 600 || h.LiveCount != 1 || h.LiveBytes != 8 {
		t.Errorf("heap %+v, sampling %+v", h, r.Sampling)
	}
}
