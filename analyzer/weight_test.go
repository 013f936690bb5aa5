package analyzer

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/tracer/event"
)

// A thread that draws as the kernel half does: distances to the next hit.
type sampler struct {
	random    *rand.Rand
	interval  float64
	countdown float64
}

func (s *sampler) hit(size uint64) bool {
	if s.interval == 0 {
		return true
	}
	s.countdown -= float64(max(size, 1))
	if s.countdown > 0 {
		return false
	}
	s.countdown = s.random.ExpFloat64() * s.interval
	return true
}

// A sampled program: what it did, and what the analyzer makes of a sample.
type sampledProgram struct {
	a    *Analyzer
	draw sampler
	real report.Heap
	next uint64
	time uint64
	live []uint64 // addresses
	size map[uint64]uint64
	seen map[uint64]bool
}

func newSampledProgram(t *testing.T, interval uint32, seed uint64) *sampledProgram {
	random := rand.New(rand.NewPCG(seed, 1))
	p := &sampledProgram{
		a:    New(Config{Interval: interval}),
		draw: sampler{random: random, interval: float64(interval), countdown: random.ExpFloat64() * float64(interval)},
		next: 1 << 20, size: map[uint64]uint64{}, seen: map[uint64]bool{},
	}
	t.Cleanup(p.a.Close)
	p.a.AddProcess(ProcessInfo{PID: testPID})
	return p
}

func (p *sampledProgram) apply(e event.Event) {
	p.time++
	e.PID, e.TID, e.Time, e.Child = testPID, testPID, p.time, uint32(p.draw.interval)
	p.a.Apply([]event.Event{e})
}

func (p *sampledProgram) alloc(size uint64, stack event.StackID) {
	addr := p.next
	p.next += 16
	p.real.AllocCount++
	p.real.AllocBytes += size
	p.real.LiveCount++
	p.real.LiveBytes += size
	p.live, p.size[addr] = append(p.live, addr), size
	if p.draw.hit(size) {
		p.seen[addr] = true
		p.apply(event.Event{Kind: event.Alloc, Addr: addr, Size: size, Stack: stack})
	}
}

func (p *sampledProgram) free() {
	i := p.draw.random.IntN(len(p.live))
	addr := p.live[i]
	p.live[i] = p.live[len(p.live)-1]
	p.live = p.live[:len(p.live)-1]
	p.real.FreeCount++
	p.real.LiveCount--
	p.real.LiveBytes -= p.size[addr]
	if p.seen[addr] || addr%256 == 0 { // some of others pass
		p.apply(event.Event{Kind: event.Free, Addr: addr})
	}
	delete(p.size, addr)
}

func (p *sampledProgram) run(calls int) {
	for range calls {
		if len(p.live) > 0 && p.draw.random.IntN(10) < 4 {
			p.free()
			continue
		}
		sizes := []uint64{16, 24, 64, 1000, 5000, 20_000, 100_000}
		i := p.draw.random.IntN(len(sizes))
		p.alloc(sizes[i], event.StackID(i+1))
	}
}

// variances of the estimates over all samples that might be drawn.
func (p *sampledProgram) variances() (bytes, count float64) {
	for _, size := range p.size {
		share := -math.Expm1(-float64(max(size, 1)) / p.draw.interval)
		bytes += (1 - share) / share * float64(size*size)
		count += (1 - share) / share
	}
	return bytes, count
}

// Over many samples the estimates' mean is the truth, and they stray from it
// by as much as their standard errors say.
func TestEstimatesAreUnbiasedAndKnowTheirError(t *testing.T) {
	const trials = 400
	for _, interval := range []uint32{100, 1000, 10_000} {
		var bytes, count []float64 // deviations
		var varBytes, varCount, seBytes, seCount float64
		for trial := range trials {
			p := newSampledProgram(t, interval, uint64(trial))
			p.run(1000)
			r := p.a.reportAt(p.time, ReportOptions{}, nil)
			h := r.Processes[0].Heap
			vb, vc := p.variances()
			varBytes, varCount = varBytes+vb, varCount+vc
			bytes = append(bytes, float64(h.LiveBytes)-float64(p.real.LiveBytes))
			count = append(count, float64(h.LiveCount)-float64(p.real.LiveCount))
			seBytes += math.Pow(float64(h.Estimate.LiveBytes()), 2)
			seCount += math.Pow(float64(h.Estimate.LiveCount()), 2)
			if r.Events.UnmatchedFree != 0 {
				t.Fatalf("%d frees of blocks outside of the sample count as unmatched", r.Events.UnmatchedFree)
			}
		}
		checkMoments(t, interval, "bytes", bytes, varBytes/trials, seBytes/trials)
		checkMoments(t, interval, "blocks", count, varCount/trials, seCount/trials)
	}
}

// checkMoments compares deviations with their variance, and with what the
// estimates took it for on average.
func checkMoments(t *testing.T, interval uint32, what string, deviations []float64, variance, estimated float64) {
	t.Helper()
	mean, square := 0.0, 0.0
	for _, d := range deviations {
		mean += d / float64(len(deviations))
		square += d * d / float64(len(deviations))
	}
	se := math.Sqrt(variance)
	if off := mean / se * math.Sqrt(float64(len(deviations))); math.Abs(off) > 4 {
		t.Errorf("interval %d, %s: biased by %.0f, %.1f times what chance allows for", interval, what, mean, off)
	}
	for name, v := range map[string]float64{"stray": square, "are said to stray": estimated} {
		if ratio := math.Sqrt(v) / se; ratio < 0.8 || ratio > 1.25 {
			t.Errorf("interval %d, %s: estimates %s by %.0f, want %.0f", interval, what, name, math.Sqrt(v), se)
		}
	}
}

// The mean over the two outcomes, in the sample or not, is the block itself.
func TestExcessIsExpectation(t *testing.T) {
	for _, interval := range []uint32{1, 100, 65536, math.MaxUint32} {
		for _, size := range []uint64{0, 1, 16, 1000, 1 << 16, 1 << 20, 1 << 40} {
			p := -math.Expm1(-float64(max(size, 1)) / float64(interval))
			x := excessOf(size, interval)
			count, bytes := 1+float64(x.count)/countUnit, float64(size)+float64(x.bytes)
			if math.Abs(count*p-1) > 1e-5 || size > 0 && math.Abs(bytes*p/float64(size)-1) > 1/float64(size)+1e-9 {
				t.Errorf("size %d at interval %d: %g blocks and %g bytes with probability %g", size, interval, count, bytes, p)
			}
		}
	}
	if x := excessOf(20<<16, 1<<16); x.count != 0 || x.bytes != 0 {
		t.Errorf("a block of 20 intervals stands for %d blocks and %d bytes more, want none", x.count, x.bytes)
	}
}

// What comes in goes out again: nothing stays of blocks that were freed.
func TestExcessVanishesWithItsBlocks(t *testing.T) {
	p := newSampledProgram(t, 512, 7)
	p.run(5000)
	for len(p.live) > 0 {
		p.free()
	}
	r := p.a.reportAt(p.time, ReportOptions{}, nil)
	if h := r.Processes[0].Heap; h.LiveBytes != 0 || h.LiveCount != 0 || h.Estimate.LiveBytesSE != 0 || h.AllocCount != h.FreeCount {
		t.Errorf("after all frees: %+v (%+v)", h, h.Estimate)
	}
	for _, s := range r.Sites {
		if s.LiveBytes != 0 || s.LiveCount != 0 {
			t.Errorf("site %d holds %d bytes in %d blocks", s.ID, s.LiveBytes, s.LiveCount)
		}
	}
}

// Blocks from before the sampling stay exact beside those of the sample.
func TestExactAndSampledBlocksAddUp(t *testing.T) {
	p := newSampledProgram(t, 0, 3)
	p.run(1000)
	exact := p.real
	r := p.a.reportAt(p.time, ReportOptions{}, nil)
	if h := r.Processes[0].Heap; h.LiveBytes != exact.LiveBytes || h.Estimate != nil || r.Sampling != nil {
		t.Fatalf("before: %d bytes (%v), want exactly %d", h.LiveBytes, h.Estimate, exact.LiveBytes)
	}
	p.draw.interval = 4096
	p.run(4000)
	r = p.a.reportAt(p.time, ReportOptions{}, nil)
	h := r.Processes[0].Heap
	if off := math.Abs(float64(h.LiveBytes) - float64(p.real.LiveBytes)); off > 5*float64(h.Estimate.LiveBytesSE) {
		t.Errorf("%d ± %d bytes live, want %d", h.LiveBytes, h.Estimate.LiveBytesSE, p.real.LiveBytes)
	}
	if len(r.Sampling.Intervals) != 1 || r.Sampling.Intervals[0] != 4096 {
		t.Errorf("the Report tells of the intervals %v, want 4096", r.Sampling.Intervals)
	}
}
