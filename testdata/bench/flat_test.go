package main

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

const testWhole = 10 * time.Minute

// series has a sample a second.
func series(of func(at time.Duration) float64) (out []sample) {
	for at := time.Second; at <= testWhole; at += time.Second {
		out = append(out, sample{at, of(at)})
	}
	return out
}

const testMB = 1024.

// A made-up memory, and whether it counts as flat.
type memory struct {
	name string
	of   func(time.Duration) float64 // kB
	flat bool
}

func memories() []memory {
	random := rand.New(rand.NewPCG(1, 2))
	// A garbage collector's: up and down by a tenth within half a minute, and noise.
	saw := func(at time.Duration) float64 {
		return 170*testMB*(1+0.1*float64(at%(27*time.Second))/float64(27*time.Second)) + 3*testMB*random.NormFloat64()
	}
	// As that, and so many MB more for a while.
	more := func(mb float64, from, to time.Duration) func(time.Duration) float64 {
		return func(at time.Duration) float64 {
			if at > from && at <= to {
				return saw(at) + mb*testMB
			}
			return saw(at)
		}
	}
	bulge, late := more(200, 5*time.Minute, 6*time.Minute+15*time.Second), more(20, 8*time.Minute, testWhole)
	return []memory{
		{"flat", func(time.Duration) float64 { return 170 * testMB }, true},
		{"flat but noisy", saw, true},
		{"a step at the start", more(200, time.Minute, testWhole), true},
		{"a rise at the start", func(at time.Duration) float64 { return saw(at) + 100*testMB*min(1, at.Minutes()/4) }, true},
		{"falling", func(at time.Duration) float64 { return saw(at) - 5*testMB*at.Minutes() }, true},
		{"events that wait for half a minute", more(130, 9*time.Minute, 9*time.Minute+30*time.Second), true},
		{"growing", func(at time.Duration) float64 { return saw(at) + 5*testMB*at.Minutes() }, false},
		{"a step in the later half", more(20, 7*time.Minute, testWhole), false},
		{"a step near the end", more(20, 9*time.Minute, testWhole), false},
		{"growing after a bulge", func(at time.Duration) float64 { return max(bulge(at), late(at)) }, false},
	}
}

func TestWhatCountsAsFlat(t *testing.T) {
	for _, m := range memories() {
		g, err := growthOf(series(m.of), testWhole)
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
			continue
		}
		if err := g.check(); (err == nil) != m.flat {
			t.Errorf("%s: %v; it grew by %.1f MB, %.1f are allowed", m.name, err, g.by()/testMB, g.allowed()/testMB)
		}
	}
}

func TestGrowthSaysHowMuchOverWhatTime(t *testing.T) {
	g, err := growthOf(series(func(at time.Duration) float64 { return (100 + 4*at.Minutes()) * testMB }), testWhole)
	if err != nil {
		t.Fatal(err)
	}
	// The parts from 5 to 6.25 minutes and from 8.75 to 10: 3.75 minutes lie between them, and so 15 MB.
	err = g.check()
	for _, want := range []string{"grew by 15.0 MB in 3m45s, from 121.2 to 136.2 MB", "lower quartiles of 1m15s each", "6.1 MB are allowed"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, without %q", err, want)
		}
	}
}

func TestTooFewSamplesAreNotFlat(t *testing.T) {
	for _, n := range []int{0, 1, 300} { // nothing, and nothing of the later half
		if _, err := growthOf(series(func(time.Duration) float64 { return testMB })[:n], testWhole); err == nil {
			t.Errorf("%d samples are enough", n)
		}
	}
}

func TestLostEventsFailASustainedRun(t *testing.T) {
	r := &sustainedRun{}
	r.a.ElapsedNS = float64(testWhole)
	r.samples = series(func(time.Duration) float64 { return 170 * testMB })
	if err := r.verdict(); err != nil {
		t.Fatal(err)
	}
	r.last.Events.Lost = 3
	if err := r.verdict(); err == nil || !strings.Contains(err.Error(), "lost 3 events in 10m0s") {
		t.Errorf("with 3 events lost the error is %v", err)
	}
	r.last.Events.Lost = 0
	r.samples = series(func(at time.Duration) float64 { return 170*testMB + 10*testMB*at.Minutes() })
	if err := r.verdict(); err == nil || !strings.Contains(err.Error(), "not flat") {
		t.Errorf("with memory that grows the error is %v", err)
	}
}
