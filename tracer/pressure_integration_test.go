//go:build integration

package tracer

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/memtrace/memtrace/tracer/event"
)

// toggle ends the phase that there is once it has chosen a block, then begins and
// ends others as fast as it can, until it is told to stop.
func toggle(v *valve, chosen, stop <-chan struct{}) {
	select {
	case <-chosen:
	case <-stop:
		return
	}
	for {
		v.mu.Lock()
		if state := atomic.LoadUint64(v.word); uint32(state) == 0 {
			v.begin(monotonic(), state)
		} else {
			v.end(monotonic(), state)
		}
		v.mu.Unlock()
		select {
		case <-stop:
			return
		case <-time.After(50 * time.Microsecond):
		}
	}
}

// tracePressed traces a program while phases begin and end all the time.
func tracePressed(t *testing.T, c Config, p *target) (a answer, events []event.Event, _ Pressure, loss event.Loss) {
	t.Helper()
	tr, detach := attached(t, c, p)
	defer detach()
	stop, chosen := make(chan struct{}), make(chan struct{})
	if !c.Sampling {
		close(chosen) // what is left out is counted one by one
	}
	tr.valve.mu.Lock()
	tr.valve.begin(monotonic(), atomic.LoadUint64(tr.valve.word))
	tr.valve.mu.Unlock()
	var wg sync.WaitGroup
	wg.Go(func() { toggle(tr.valve, chosen, stop) })
	wg.Go(func() {
		seen := !c.Sampling
		for {
			b, err := tr.Read()
			if err != nil {
				return
			}
			events = append(events, b.Events...)
			if !seen && slices.ContainsFunc(b.Events, func(e event.Event) bool { return e.Kind == event.Alloc && e.Interval() != 0 }) {
				seen = true
				close(chosen)
			}
			b.Release()
		}
	})
	a = p.answer()
	close(stop)
	if err := tr.Stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	wg.Wait()
	pressure, err := tr.Pressure()
	if err != nil {
		t.Fatal(err)
	}
	if loss, err = tr.Loss(); err != nil {
		t.Fatal(err)
	}
	return a, events, pressure, loss
}

// Every call is either recorded or counted as left out, and every block that
// was recorded has its free recorded, whatever was left out in between.
func TestPressedCallsAreAllCounted(t *testing.T) {
	for _, m := range bestRungs(t) {
		for _, program := range [][]string{{"samples", "4"}, {"every_function"}} {
			t.Run(string(m)+"_"+program[0], func(t *testing.T) {
				p := start(t, nil, program[0], program[1:]...)
				a, events, pressure, loss := tracePressed(t, Config{Mechanism: m, StackDepth: 16, Pressure: 16 << 10}, p)
				p.finish()
				checkPressed(t, a, events, pressure)
				if loss.Lost() != 0 {
					t.Errorf("lost events: %+v", loss)
				}
			})
		}
	}
}

func checkPressed(t *testing.T, a answer, events []event.Event, pressure Pressure) {
	t.Helper()
	var got LeftOut
	recorded := make(map[uint64]uint64) // blocks that live, by address
	missed := 0
	for i := range events {
		switch e := &events[i]; e.Kind {
		case event.Alloc:
			got.Alloc++
			if _, was := recorded[e.Addr]; was {
				missed++
			}
			recorded[e.Addr] = e.Size
		case event.Free:
			got.Free++
			delete(recorded, e.Addr)
		case event.Realloc:
			delete(recorded, e.Old)
			if e.Flags&event.FlagOldOnly != 0 {
				continue // it is among those that were left out
			}
			got.Realloc++
			if _, was := recorded[e.Addr]; was {
				missed++
			}
			if e.Addr != 0 {
				recorded[e.Addr] = e.Size
			}
		}
	}
	left := pressure.LeftOut
	if got.Alloc+left.Alloc != a.Total.Alloc || got.Free+left.Free != a.Total.Free || got.Realloc+left.Realloc != a.Total.Realloc {
		t.Errorf("recorded %+v, left out %+v, the program says %d, %d, %d", got, left, a.Total.Alloc, a.Total.Free, a.Total.Realloc)
	}
	if missed != 0 {
		t.Errorf("%d recorded blocks were given out again without their frees", missed)
	}
	if uint64(len(recorded)) > a.Total.LiveCount {
		t.Errorf("%d recorded blocks live, of %d in all", len(recorded), a.Total.LiveCount)
	}
	if pressure.Count == 0 || len(pressure.Phases) == 0 {
		t.Error("no phase is known of")
	}
}

// A sampling tracer has no list of what it left out: its filter knows what it recorded.
func TestPressedSampleStaysUnbiased(t *testing.T) {
	const interval = 16 << 10
	p := start(t, nil, "samples", "10")
	a, events, pressure, loss := tracePressed(t, Config{StackDepth: 16, Sampling: true, Pressure: interval}, p)
	p.finish()
	r := &estimate{live: make(map[uint64]uint64)}
	for i := range events {
		if e := &events[i]; e.Kind == event.Alloc {
			r.interval = float64(max(e.Interval(), 1))
			share := 1.0
			if e.Interval() != 0 {
				share = r.share(e.Size)
			}
			r.bytes += float64(e.Size) / share
			r.varBytes += float64(e.Size*e.Size) * (1 - share) / (share * share)
		}
	}
	if r.varBytes == 0 {
		t.Error("no block that stands for others was recorded")
	}
	// Where few are, their variance says little: 14 intervals have none once in a million times.
	unseen := math.Pow(14*interval/maxErrors, 2)
	near(t, "allocated bytes", r.bytes, a.Total.AllocBytes, r.varBytes+unseen)
	if pressure.Count == 0 || pressure.LeftOut != (LeftOut{}) || loss.Lost() != 0 {
		t.Errorf("%d phases, left out %+v, lost %+v", pressure.Count, pressure.LeftOut, loss)
	}
}
