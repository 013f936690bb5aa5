package analyzer

import (
	"strings"
	"testing"

	"github.com/memtrace/memtrace/tracer/event"
)

// Each process is traced for its own time: from its birth or attach to its end.
func TestProcessesAreTracedForTheirOwnTime(t *testing.T) {
	a := New(Config{Start: testStart, FollowForks: true})
	defer a.Close()
	a.AddProcess(ProcessInfo{PID: testPID})
	at := func(ns uint64, pid, child uint32, kind event.Kind) event.Event {
		return event.Event{Time: testStart + ns, PID: pid, TID: pid, Child: child, Kind: kind}
	}
	a.Apply([]event.Event{at(100, testPID, 77, event.Fork)})
	a.Apply([]event.Event{at(350, 77, 0, event.Exit)})
	a.AddProcess(ProcessInfo{PID: 99}) // is found now
	got := make(map[int]uint64)
	for _, p := range a.reportAt(testStart+1000, ReportOptions{}, nil).Processes {
		got[p.PID] = p.TracedNS
	}
	if got[testPID] != 1000 || got[77] != 250 || got[99] != 650 {
		t.Errorf("traced for %v ns, want 1000 of %d, 250 of its child 77 and 650 of 99", got, testPID)
	}
}

// A Report at the end says that stacks were lost, and of how many allocations.
func TestLostStacksAreSaid(t *testing.T) {
	for _, final := range []bool{false, true} {
		a := newTestAnalyzer(t)
		a.AddStack(event.Stack{ID: 7, PID: testPID, Frames: []uint64{1}})
		a.Apply(new(trace).malloc(0x1000, 100, 7).malloc(0x2000, 50, 8).malloc(0x3000, 50, 9).malloc(0x4000, 25, 0).events)
		r := a.reportAt(testStart+10_000, ReportOptions{Final: final}, nil)
		if said := strings.Contains(strings.Join(r.Warnings, "\n"), "call stacks of 2 allocations were lost: they count under [stack lost]"); said != final {
			t.Errorf("final %v: warnings %q", final, r.Warnings)
		}
	}
}
