package tracer

import (
	"testing"
	"time"
)

// A program for a Budget: its own time, and calls of malloc and free a second
// of it, half each.
type workload struct {
	calls     float64
	busy      float64 // processors
	predicted float64 // share of the mallocs
	exits     float64 // share of the mallocs whose return instruction is probed, at every level
}

// trace runs a Budget over a load for a time and returns the share of the
// cost in the program's own time over all, and the time at each level.
func (l workload) trace(b *Budget, from, until time.Duration) (overhead float64, at map[Level]time.Duration) {
	const step = 250 * time.Millisecond
	at = make(map[Level]time.Duration)
	var cost, own float64
	for now := from; now < until; now += step {
		level := b.Level()
		at[level] += step
		work := l.busy * float64(step) // of the program itself; the probes' time comes on top
		pairs := l.calls / 2 * l.busy * step.Seconds()
		var h Hits
		switch level {
		case Full:
			h = Hits{Entry: uint64(pairs * (1 + l.predicted)), Recorded: uint64(pairs * (1 - l.predicted)), Predicted: uint64(pairs * l.predicted)}
		case Sampled:
			h = Hits{Entry: uint64(pairs * 1.99), Recorded: uint64(pairs * 0.01)}
		case Sparse:
			h = Hits{Entry: uint64(2 * pairs)}
		}
		if level != Paused {
			h.Exit = uint64(pairs * l.exits)
		}
		h.Timed, h.TimedNS = (h.Recorded+h.Predicted)/64, (h.Recorded+h.Predicted)/64*800
		c := float64(h.Entry)*b.Costs.Entry + float64(h.Recorded)*(b.Costs.Return+800) + float64(h.Predicted)*800
		c += float64(h.Exit) * b.Costs.Exit
		cost, own = cost+c, own+work
		b.Observe(now+step, step, h, uint64(work+c))
	}
	return cost / own, at
}

func TestBudgetIsKept(t *testing.T) {
	for name, c := range map[string]struct {
		load workload
		mode Level // where most of the time goes
	}{
		"idle":                 {workload{0, 0.01, 0, 0}, Full},
		"few calls":            {workload{20_000, 1, 0, 0}, Full},
		"full is too dear":     {workload{52_000, 1, 0, 0}, Sampled},
		"not with predictions": {workload{52_000, 1, 1, 0}, Full},
		"entries alone are":    {workload{2_000_000, 1, 0, 0}, Paused},
	} {
		b := &Budget{Limit: 0.05, Costs: Costs{Entry: 500, Return: 800}}
		overhead, at := c.load.trace(b, 0, 5*time.Minute)
		most := Full
		for level, spent := range at {
			if spent > at[most] {
				most = level
			}
		}
		if most != c.mode {
			t.Errorf("%s: mostly %v (%v), want %v", name, most, at, c.mode)
		}
		if overhead > 0.06 {
			t.Errorf("%s: the probes took %.1f %% of the program's time, want 5 at most", name, 100*overhead)
		}
		if got := b.Overhead(); got < overhead*0.8-0.001 || got > overhead*1.2+0.001 {
			t.Errorf("%s: says %.3f, is %.3f", name, got, overhead)
		}
	}
}

// Return instructions that are stepped count as what they cost: 4,000 a second of 16 µs are more than the limit.
func TestBudgetCountsSteppedReturns(t *testing.T) {
	b := &Budget{Limit: 0.05, Costs: Costs{Entry: 500, Return: 800, Exit: 16_000}}
	for now := time.Duration(0); now < 3*time.Second; now += time.Second {
		b.Observe(now, time.Second, Hits{Entry: 4000, Exit: 4000}, 1e9)
	}
	if want := share(4000*(500+16_000), 1e9); b.Overhead() != want || b.Level() == Full {
		t.Errorf("overhead %v at level %v, want %v and less than all", b.Overhead(), b.Level(), want)
	}
}

// A load at the limit must not have it change its mind all the time.
func TestBudgetHasHysteresis(t *testing.T) {
	for name, l := range map[string]workload{
		"returns that are replaced": {48_000, 1, 0, 0},
		"returns that are stepped":  {5800, 1, 1, 1}, // 4.9 % for each call to be seen, 5.2 for all to be recorded
	} {
		b := &Budget{Limit: 0.05, Costs: Costs{Entry: 500, Return: 800, Exit: 16_000}}
		changes, last := 0, b.Level()
		for now := time.Duration(0); now < time.Minute; now += time.Second {
			l.trace(b, now, now+time.Second)
			if b.Level() != last {
				changes, last = changes+1, b.Level()
			}
		}
		if changes > 2 || last == Paused {
			t.Errorf("%s: %d changes of level in a minute of an even load, to %v at last", name, changes, last)
		}
	}
}

func TestBudgetComesBack(t *testing.T) {
	b := &Budget{Limit: 0.05, Costs: Costs{Entry: 500, Return: 800}}
	workload{5_000_000, 1, 0, 0}.trace(b, 0, time.Minute)
	if b.Level() == Full {
		t.Fatal("a program that does nothing but allocate is traced fully")
	}
	workload{1000, 1, 0, 0}.trace(b, time.Minute, 3*time.Minute)
	if b.Level() != Full {
		t.Errorf("two minutes after the storm the level is %v", b.Level())
	}
}

func TestBudgetKeepsToItsFloor(t *testing.T) {
	b := &Budget{Limit: 0.05, Floor: Sampled, Costs: Costs{Entry: 500, Return: 800}}
	if _, at := (workload{1000, 1, 0, 0}).trace(b, 0, time.Minute); at[Full] != 0 {
		t.Errorf("%v of full tracing where only samples were asked for", at[Full])
	}
}
