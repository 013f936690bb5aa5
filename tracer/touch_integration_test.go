//go:build integration

package tracer

import (
	"errors"
	"testing"

	"github.com/memtrace/memtrace/tracer/event"
)

// Page faults have stacks while they are to, and none else, whichever source they come from; what the stacks cost is
// counted.
func TestTouchesInTurns(t *testing.T) {
	if errors.Is(haveTaskRegs.Probe(), ErrNotSupported) {
		return // TestFeaturesMatchKernelVersion judges that
	}
	for _, r := range faultSources {
		if err := r.have.Probe(); errors.Is(err, ErrNotSupported) {
			continue
		}
		for name, on := range map[string]bool{"on": true, "off": false} {
			t.Run(string(r.name)+" "+name, func(t *testing.T) {
				p := start(t, nil, "touch")
				tr, detach := attached(t, Config{Faults: r.name, StackDepth: 16, Sampling: true, TouchInTurns: true}, p)
				defer detach()
				if !tr.Config().TouchInTurns {
					t.Fatal("the tracer can't")
				}
				if err := tr.TakeTouches(on); err != nil {
					t.Fatal(err)
				}
				events := make(chan []event.Event, 1)
				go func() { events <- allEvents(tr) }()
				p.answer()
				if err := tr.Stop(); err != nil {
					t.Error(err)
				}
				var touches, faults uint64
				for _, e := range <-events {
					switch {
					case e.Kind != event.Fault:
					case e.Flags&event.FaultTouch != 0 && e.Stack != 0:
						touches++
					default:
						faults++
					}
				}
				p.finish()
				h := tr.Hits()
				if on && (touches == 0 || faults != 0 || h.Touch < touches || h.TouchTimed == 0 || h.TouchNS == 0) {
					t.Errorf("%d faults with a stack and %d without; hits %+v", touches, faults, h)
				}
				if !on && (touches != 0 || faults == 0 || h.Touch != 0) {
					t.Errorf("%d faults with a stack and %d without; hits %+v", touches, faults, h)
				}
			})
		}
	}
}

// allEvents are those until the tracer stops.
func allEvents(tr *Tracer) (events []event.Event) {
	for {
		b, err := tr.Read()
		if err != nil {
			return events
		}
		events = append(events, b.Events...)
		b.Release()
	}
}

// What can't have stacks says so.
func TestTouchesInTurnsNeedStacks(t *testing.T) {
	for name, c := range map[string]Config{
		"no stacks": {Sampling: true, TouchInTurns: true, Unwind: UnwindNone, StackDepth: 16},
		"no faults": {Sampling: true, TouchInTurns: true, Faults: FaultOff, StackDepth: 16},
	} {
		tr, err := New(c)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if tr.Config().TouchInTurns || tr.TakeTouches(true) == nil {
			t.Errorf("%s: it takes stacks at page faults", name)
		}
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	}
}
