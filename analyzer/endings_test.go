package analyzer

import (
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/tracer/event"
)

func TestStacksAreCountedByTheirEnds(t *testing.T) {
	a := newTestAnalyzer(t)
	for _, s := range []event.Stack{
		{ID: 1, Bottom: true}, {ID: 2, Truncated: true, Deeper: true}, {ID: 3, Truncated: true},
		{ID: 4, Bottom: true, FPGuess: true}, {ID: 5, Bottom: true},
	} {
		s.PID, s.Frames = testPID, []uint64{1}
		a.AddStack(s)
	}
	calls := new(trace)
	addr := uint64(0x1000)
	for stack, n := range []int{2, 7, 3, 4, 5, 1} {
		for range n {
			calls.malloc(addr, 10, event.StackID(stack))
			addr += 0x100
		}
	}
	calls.malloc(addr, 10, 99) // whose stack never came
	a.Apply(calls.events)
	r := a.reportAt(testStart+10_000, ReportOptions{}, nil)
	if want := (report.Stacks{Bottom: 7 + 1, Deeper: 3, Broken: 4, FPBottom: 5, None: 2 + 1}); r.Stacks != want {
		t.Errorf("%+v, want %+v", r.Stacks, want)
	}
	for _, s := range r.Sites {
		if got, want := s.FramePointers, s.AllocCount == 5; got != want {
			t.Errorf("site %d is marked as by frame pointers: %v", s.ID, got)
		}
	}
}
