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
	touches   float64 // page faults a second of its own time
}

const touchNS = 2000 // what the stack of one takes

// trace runs a Budget over a load for a time and returns the share of the
// cost in the program's own time over all, and the time at each level.
func (l workload) trace(b *Budget, from, until time.Duration) (overhead float64, at map[Level]time.Duration) {
	const step = 10 * time.Millisecond
	at = make(map[Level]time.Duration)
	var cost, own float64
	for now := from; now < until; now += step {
		if b.Due(now) {
			b.Look(now)
		}
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
		if level < None {
			h.Exit = uint64(pairs * l.exits)
		}
		if level == None {
			h.Touch = uint64(l.touches * l.busy * step.Seconds())
			h.TouchTimed, h.TouchNS = (h.Touch+15)/16, (h.Touch+15)/16*touchNS
		}
		h.Timed, h.TimedNS = (h.Recorded+h.Predicted)/64, (h.Recorded+h.Predicted)/64*800
		c := float64(h.Entry)*b.Costs.Entry + float64(h.Recorded)*(b.Costs.Return+800) + float64(h.Predicted)*800
		c += float64(h.Exit)*b.Costs.Exit + float64(h.Touch)*touchNS
		cost, own = cost+c, own+work
		b.Observe(now+step, step, h, uint64(work+c))
	}
	return cost / own, at
}

func TestBudgetIsKept(t *testing.T) {
	for name, c := range map[string]struct {
		load workload
		full bool  // it begins so
		mode Level // where most of the time goes
	}{
		"idle":                 {workload{0, 0.01, 0, 0, 0}, false, Full},
		"few calls":            {workload{20_000, 1, 0, 0, 0}, false, Full},
		"full is too dear":     {workload{52_000, 1, 0, 0, 0}, false, Sampled},
		"not with predictions": {workload{52_000, 1, 1, 0, 0}, true, Full},
		"entries alone are":    {workload{2_000_000, 1, 0, 0, 0}, false, Paused},
	} {
		b := &Budget{Limit: 0.05, Costs: Costs{Entry: 500, Return: 800}, StartFull: c.full}
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
	b := &Budget{Limit: 0.05, Costs: Costs{Entry: 500, Return: 800, Exit: 16_000}, StartFull: true}
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
		"returns that are replaced": {48_000, 1, 0, 0, 0},
		"returns that are stepped":  {5800, 1, 1, 1, 0}, // 4.9 % for each call to be seen, 5.2 for all to be recorded
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
	workload{5_000_000, 1, 0, 0, 0}.trace(b, 0, time.Minute)
	if b.Level() == Full {
		t.Fatal("a program that does nothing but allocate is traced fully")
	}
	workload{1000, 1, 0, 0, 0}.trace(b, time.Minute, 3*time.Minute)
	if b.Level() != Full {
		t.Errorf("two minutes after the storm the level is %v", b.Level())
	}
}

func TestBudgetKeepsToItsFloor(t *testing.T) {
	b := &Budget{Limit: 0.05, Floor: Sampled, Costs: Costs{Entry: 500, Return: 800}}
	if _, at := (workload{1000, 1, 0, 0, 0}).trace(b, 0, time.Minute); at[Full] != 0 {
		t.Errorf("%v of full tracing where only samples were asked for", at[Full])
	}
}

var redis = workload{calls: 900_000, busy: 1}

func onePercent() *Budget { return &Budget{Limit: 0.01, Costs: Costs{Entry: 500, Return: 800}} }

// The first seconds of a burst keep within the limit, however much was seen before it.
func TestBudgetIsKeptFromABurstsFirstSecondsOn(t *testing.T) {
	for name, before := range map[string]time.Duration{"at the start": 0, "after a quiet minute": time.Minute} {
		b := onePercent()
		workload{calls: 10, busy: 0.01}.trace(b, 0, before)
		if before > 0 && b.Level() != Full {
			t.Fatalf("%s: the level is %v before the burst", name, b.Level())
		}
		if overhead, at := redis.trace(b, before, before+3*time.Second); overhead > 0.01 {
			t.Errorf("%s: the probes took %.1f %% of its first three seconds (%v)", name, 100*overhead, at)
		}
	}
}

// A burst that samples keep within the limit of is sampled, and what is known of the blocks is kept.
func TestBudgetSamplesABurst(t *testing.T) {
	b := &Budget{Limit: 0.05, Costs: Costs{Entry: 500, Return: 800}}
	workload{calls: 1000, busy: 1}.trace(b, 0, 10*time.Second)
	_, at := workload{calls: 80_000, busy: 1}.trace(b, 10*time.Second, 20*time.Second)
	if at[Paused] != 0 || at[Sampled] < 9*time.Second {
		t.Errorf("a burst of what samples can bear: %v", at)
	}
}

// Where the page faults of a burst keep within the limit they tell who grows, and it is not paused.
func TestBudgetTouchesInABurst(t *testing.T) {
	b := onePercent()
	b.CanTouch = true
	workload{calls: 10, busy: 0.01}.trace(b, 0, 10*time.Second)
	load := redis
	load.touches = 1000 // 0.2 %
	overhead, at := load.trace(b, 10*time.Second, time.Minute)
	if at[Paused] != 0 || at[None] < 45*time.Second || at[Full] > time.Second {
		t.Errorf("a burst with few page faults: %v", at)
	}
	if overhead > 0.01 {
		t.Errorf("the probes took %.1f %% of its time", 100*overhead)
	}
	if _, at := (workload{calls: 1000, busy: 1}).trace(b, time.Minute, 4*time.Minute); b.Level() != Full || at[None] > maxPause+time.Second {
		t.Errorf("three minutes after it, the level is %v: %v", b.Level(), at)
	}
}

// Where they alone are above the limit nothing is left but a pause.
func TestBudgetPausesWhereTouchesAreTooDear(t *testing.T) {
	b := onePercent()
	b.CanTouch = true
	load := redis
	load.touches = 50_000 // 10 %
	overhead, at := load.trace(b, 0, 5*time.Minute)
	if at[Paused] < 4*time.Minute || at[None] > 20*time.Second {
		t.Errorf("a burst with many page faults: %v", at)
	}
	if overhead > 0.011 {
		t.Errorf("the probes took %.1f %% of its time", 100*overhead)
	}
}

// What probes still cost while they are being taken off is no reason to stop looking at page faults.
func TestBudgetForgivesTheLastHits(t *testing.T) {
	b := onePercent()
	b.CanTouch = true
	b.Observe(time.Second, time.Second, Hits{Entry: 2_000_000}, 1e9)
	if b.Level() != None {
		t.Fatalf("a burst leads to %v", b.Level())
	}
	b.Observe(1050*time.Millisecond, 50*time.Millisecond, Hits{Entry: 100_000}, 5e7)
	if b.Level() != None {
		t.Errorf("100,000 hits of probes on their way off lead to %v", b.Level())
	}
}

// The looks come as seldom as in a pause, whether it tries page faults or not.
func TestBudgetLooksSeldomAtPageFaults(t *testing.T) {
	for name, touches := range map[string]float64{"few": 100, "many": 100_000} {
		b := onePercent()
		b.CanTouch = true
		load, looks := redis, 0
		load.touches = touches
		const step = 10 * time.Millisecond
		for now := time.Duration(0); now < 4*time.Minute; now += step {
			if b.Due(now) {
				looks++
				b.Look(now)
			}
			load.trace(b, now, now+step)
		}
		if looks < 4 || looks > 9 {
			t.Errorf("%s page faults: %d looks in four minutes", name, looks)
		}
	}
}

// One short burst is no reason to see less.
func TestBudgetBearsAMoment(t *testing.T) {
	b := onePercent()
	workload{calls: 10, busy: 1}.trace(b, 0, 10*time.Second)
	_, at := workload{calls: 100_000, busy: 1}.trace(b, 10*time.Second, 10*time.Second+20*time.Millisecond)
	if b.Level() != Full || at[Full] != 20*time.Millisecond {
		t.Errorf("20 ms of allocations: %v, then %v", at, b.Level())
	}
}

func TestBudgetClimbsAtOnce(t *testing.T) {
	for name, quiet := range map[string]workload{
		"idle":                       {0, 0, 0, 0, 0},
		"nearly idle":                {200, 0.001, 0, 0, 0},
		"busy, and allocates little": {2000, 1, 0, 0, 0},
	} {
		b := onePercent()
		if b.Level() != Sparse {
			t.Errorf("%s: it begins at %v", name, b.Level())
		}
		if _, at := quiet.trace(b, 0, time.Minute); at[Full] < time.Minute-time.Second {
			t.Errorf("%s: %v", name, at)
		}
	}
}

// The looks of a pause come less and less often, as long as each leads back to it.
func TestBudgetLooksSeldom(t *testing.T) {
	b := onePercent()
	var looks []time.Duration
	const step = 10 * time.Millisecond
	for now := time.Duration(0); now < 4*time.Minute; now += step {
		if b.Due(now) {
			looks = append(looks, now)
			b.Look(now)
		}
		redis.trace(b, now, now+step)
	}
	if len(looks) < 5 || len(looks) > 9 {
		t.Fatalf("looks at %v", looks)
	}
	for i := 2; i < len(looks); i++ {
		if before, last := looks[i-1]-looks[i-2], looks[i]-looks[i-1]; last < before && last < maxPause {
			t.Errorf("looks at %v", looks)
		}
	}
}

// A thread that waits for its processor as its call is timed says nothing of what calls cost.
func TestBudgetDoubtsASlowCall(t *testing.T) {
	b := &Budget{Limit: 0.01, Costs: Costs{Entry: 500, Return: 800}, StartFull: true}
	b.Observe(time.Second, time.Second, Hits{Recorded: 1, Timed: 1, TimedNS: 20_000_000}, 1e9)
	b.Observe(2*time.Second, time.Second, Hits{Recorded: 1000, Timed: 16, TimedNS: 16 * 800}, 1e9)
	if b.Level() != Full {
		t.Errorf("1000 calls a second of a whole processor, after one that took 20 ms by the clock: %v", b.Level())
	}
}
