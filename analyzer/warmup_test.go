package analyzer

import (
	"strings"
	"testing"

	"github.com/memtrace/memtrace/tracer/event"
)

// TestWarmUpMakesNoCandidates: a site that fills only at the start and one that
// leaks all the time, seen with and without a warm-up.
func TestWarmUpMakesNoCandidates(t *testing.T) {
	const (
		early, leak = 101, 102
		pid, start  = 77, 5 * second
	)
	for warmUp, want := range map[uint64]int{0: 2, 20 * second: 1} {
		a := New(Config{Start: start, WarmUp: warmUp})
		onTape(t, a)
		a.AddProcess(ProcessInfo{PID: pid})
		next := uint64(0x1000)
		alloc := func(at uint64, stack event.StackID) event.Event {
			next += 512
			return event.Event{Kind: event.Alloc, Time: at, PID: pid, TID: pid, Addr: next, Size: 400, Stack: stack}
		}
		found := 0
		for w := range uint64(41) {
			var events []event.Event
			for i := range uint64(50) {
				at := start + w*second + i*second/50
				events = append(events, alloc(at, leak))
				if w < 20 {
					events = append(events, alloc(at+1, early))
				}
			}
			a.Apply(events)
			a.Window(start + (w+1)*second)
			// As it still grows, the early site is a candidate.
			if w == 18 || w == 40 {
				leaks := a.reportAt(start+(w+1)*second, ReportOptions{}, nil).Leaks
				found = max(found, len(leaks))
				if w == 18 && warmUp != 0 && len(leaks) != 0 {
					t.Errorf("during the warm-up: %+v", leaks)
				}
				for _, l := range leaks {
					if rate := float64(l.GrowthPerSecond); !l.Growing || rate < 19_000 || rate > 21_000 {
						t.Errorf("%+v, want 20,000 bytes/s", l)
					}
				}
			}
		}
		if found != want {
			t.Errorf("warm-up of %d s: %d candidates, want %d", warmUp/second, found, want)
		}
		a.Close()
	}
}

func TestWarningsOfTheSplitReachTheReport(t *testing.T) {
	a := newTestAnalyzer(t)
	a.AddProcess(ProcessInfo{PID: testPID})
	p := a.byPID[testPID]
	if w := a.reportAt(testStart, ReportOptions{}, nil).Warnings; len(w) != 0 {
		t.Errorf("%q", w)
	}
	offTape(a)
	p.pages.stacksNotFound, p.pages.unmeasured = 3, 5<<20
	w := strings.Join(a.reportAt(testStart, ReportOptions{}, nil).Warnings, "\n")
	if !strings.Contains(w, "the stacks of 3 threads were not found") || !strings.Contains(w, "5.00 MiB of resident memory with live blocks") {
		t.Errorf("%q", w)
	}
}
