package tracer

import (
	"sync/atomic"
	"testing"
)

// A fakeFlow fills a ring at a rate while it is traced fully, and at a
// hundredth of it by samples; the reader takes as many events a step as it can.
type fakeFlow struct {
	valve   *valve
	ring    float64 // events in it
	size    float64
	in, out float64 // a step
}

const flowStep = 50_000_000 // ns

// step lets one step pass; the kernel's half begins a phase as the ring is half full.
func (f *fakeFlow) step(now uint64) (pressed bool) {
	state := atomic.LoadUint64(f.valve.word)
	pressed = uint32(state) != 0
	in := f.in
	if pressed {
		in /= 100
	}
	f.ring += in
	if f.ring >= f.size/2 && !pressed {
		*f.valve.start = now
		atomic.StoreUint64(f.valve.word, (state>>32+1)<<32|uint64(f.valve.interval))
	}
	f.valve.lookAt(now, min(f.ring/f.size, 1), 0)
	f.ring = max(f.ring-f.out, 0)
	return pressed
}

func newFlow(in, out float64) *fakeFlow {
	return &fakeFlow{valve: newValve(alignedBytes(4096), 64<<10), size: 1000, in: in, out: out}
}

// A burst that the reader can't follow is one phase, and then all is recorded again.
func TestBurstIsOnePhase(t *testing.T) {
	f := newFlow(300, 50)
	var now uint64
	for range 10 {
		now += flowStep
		f.step(now)
	}
	f.in = 10
	for range 100 {
		now += flowStep
		f.step(now)
	}
	count, phases := f.valve.past()
	if count != 1 || len(phases) != 1 {
		t.Fatalf("%d phases: %+v", count, phases)
	}
	p := phases[0]
	if p.From == 0 || p.To <= p.From || p.Interval != 64<<10 {
		t.Errorf("the phase is %+v", p)
	}
	if took := p.To - p.From; took < minLowTime || took > 3*minLowTime {
		t.Errorf("sampled for %d ns, want some more than %d", took, uint64(minLowTime))
	}
	if f.step(now + flowStep) {
		t.Error("sampled still, though the ring is empty")
	}
}

// A target that is always too fast is sampled nearly all the time, not in turns.
func TestSteadyPressureDoesNotFlap(t *testing.T) {
	f := newFlow(400, 100)
	var now uint64
	sampled := 0
	const steps = 2 * 60 * 20 // two minutes
	for range steps {
		now += flowStep
		if f.ring > f.size {
			t.Fatal("the ring is full")
		}
		if f.step(now) {
			sampled++
		}
	}
	// 1 + 2 + 4 + 8 + 16 s, then 30 s each.
	if count, _ := f.valve.past(); count < 5 || count > 10 {
		t.Errorf("%d phases in two minutes", count)
	}
	if sampled < steps*95/100 {
		t.Errorf("sampled in %d of %d steps", sampled, steps)
	}
}

func TestPressureIsForgotten(t *testing.T) {
	var g gauge
	g.began(1_000)
	g.ended = 2_000
	g.began(3_000)
	if g.hold != 2*minLowTime {
		t.Errorf("pressure that comes back waits for %d ns of calm", g.hold)
	}
	g.ended = 4_000
	g.began(4_000 + forgetTime + 1)
	if g.hold != minLowTime {
		t.Errorf("pressure that comes back late waits for %d ns of calm", g.hold)
	}
}

// Batches that wait for a reader that is busy count, too.
func TestBacklogIsPressure(t *testing.T) {
	v := newValve(alignedBytes(4096), 4096)
	v.lookAt(1, 0, 0.5)
	if count, _ := v.past(); count != 0 {
		t.Fatal("half of the batches is too much")
	}
	v.lookAt(2, 0, 0.75)
	if got := uint32(atomic.LoadUint64(v.word)); got != 4096 {
		t.Fatalf("the interval is %d", got)
	}
	for now := uint64(3); now < 3*minLowTime; now += flowStep {
		v.lookAt(now, 0, 0.2) // not low
	}
	if uint32(atomic.LoadUint64(v.word)) == 0 {
		t.Error("the phase ended with a fifth of the batches waiting")
	}
}

func TestSampleGetsSparserUnderPressure(t *testing.T) {
	for _, c := range []struct {
		config Config
		want   uint32
	}{
		{Config{}, 0},
		{Config{Interval: 1024}, 0},
		{Config{Pressure: 65536}, 65536},
		{Config{Pressure: 65536, Interval: 1024}, 65536},
		{Config{Pressure: 65536, Interval: 65536}, 1 << 20},
		{Config{Pressure: 65536, Interval: 1 << 31}, 1<<32 - 1},
	} {
		if got := pressedInterval(c.config); got != c.want {
			t.Errorf("%+v: %d, want %d", c.config, got, c.want)
		}
	}
}
