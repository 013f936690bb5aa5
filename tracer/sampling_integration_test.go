//go:build integration

package tracer

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/memtrace/memtrace/tracer/event"
)

// An estimate computes, from the events of a sample, what the program under
// test knows of itself, and by how much it may err.
type estimate struct {
	tr       *Tracer
	interval float64
	live     map[uint64]uint64 // sizes by address

	allocs, bytes, reallocBytes          float64
	liveBytes, liveCount                 float64
	varAllocs, varBytes, varReallocBytes float64
	varLive                              float64

	hugeAllocs, wantedFrees, unknownFrees int
}

// share is how likely a block of a size is in the sample.
func (r *estimate) share(size uint64) float64 {
	return -math.Expm1(-float64(max(size, 1)) / r.interval)
}

func (r *estimate) begin(addr, size uint64) {
	r.end(addr) // its free would have been seen
	p := r.share(size)
	r.live[addr] = size
	r.liveBytes += float64(size) / p
	r.liveCount += 1 / p
	r.varLive += float64(size*size) * (1 - p) / (p * p)
}

func (r *estimate) end(addr uint64) bool {
	size, ok := r.live[addr]
	if !ok {
		return false
	}
	p := r.share(size)
	delete(r.live, addr)
	r.liveBytes -= float64(size) / p
	r.liveCount -= 1 / p
	r.varLive -= float64(size*size) * (1 - p) / (p * p)
	return true
}

// ended ends a block by an event.
func (r *estimate) ended(addr uint64, flags event.Flags) bool {
	known := r.end(addr)
	if known && flags&event.FlagReleased == 0 {
		r.tr.Release(addr)
	}
	return known
}

func (r *estimate) take(e *event.Event) {
	p := r.share(e.Size)
	variance := (1 - p) / (p * p)
	switch e.Kind {
	case event.Alloc:
		r.allocs += 1 / p
		r.bytes += float64(e.Size) / p
		r.varAllocs += variance
		r.varBytes += variance * float64(e.Size*e.Size)
		if e.Size == 1<<20 {
			r.hugeAllocs++
		}
		r.begin(e.Addr, e.Size)
	case event.Realloc:
		r.ended(e.Old, e.Flags)
		if e.Flags&event.FlagOldOnly != 0 {
			return
		}
		r.reallocBytes += float64(e.Size) / p
		r.varReallocBytes += variance * float64(e.Size*e.Size)
		r.begin(e.Addr, e.Size)
	case event.Free:
		if r.ended(e.Addr, e.Flags) {
			r.wantedFrees++
		} else {
			r.unknownFrees++
		}
	}
}

// estimateSample traces the program with a sample and returns what it says of itself too.
func estimateSample(t *testing.T, c Config, p *target) (answer, *estimate, event.Loss) {
	t.Helper()
	tr, detach := attached(t, c, p)
	defer detach()
	r := &estimate{tr: tr, interval: float64(c.Interval), live: make(map[uint64]uint64)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			b, err := tr.Read()
			if errors.Is(err, ErrClosed) {
				return
			}
			for i := range b.Events {
				r.take(&b.Events[i])
			}
			b.Release()
		}
	}()
	a := p.answer()
	if err := tr.Stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	<-done
	loss, err := tr.Loss()
	if err != nil {
		t.Fatal(err)
	}
	return a, r, loss
}

// maxErrors is how many standard errors an estimate may be off: less than
// once in a million times by chance, and with the seed never or always.
const maxErrors = 5

func near(t *testing.T, what string, got float64, want uint64, variance float64) {
	t.Helper()
	if se := math.Sqrt(variance); math.Abs(got-float64(want)) > maxErrors*se+0.5 {
		t.Errorf("%s: estimated %.0f ± %.0f, the program says %d", what, got, se, want)
	}
}

func TestSampledTotalsAreUnbiased(t *testing.T) {
	t.Parallel()
	for _, m := range bestRungs(t) {
		for _, interval := range []uint32{512, 16 << 10} {
			if m == Perf && interval != 512 {
				continue // it loads a program for each probe, which emulators take long for
			}
			t.Run(fmt.Sprint(m, "_", interval), func(t *testing.T) {
				p := start(t, nil, "samples", "40")
				a, r, loss := estimateSample(t, Config{Mechanism: m, StackDepth: 16, Sampling: true, Interval: interval, Seed: 1}, p)
				p.finish()
				near(t, "allocations", r.allocs, a.Total.Alloc, r.varAllocs)
				near(t, "allocated bytes", r.bytes, a.Total.AllocBytes, r.varBytes)
				// Of their number a few small blocks make the most, which most samples have none of.
				near(t, "reallocated bytes", r.reallocBytes, a.Total.ReallocBytes, r.varReallocBytes)
				near(t, "live bytes", r.liveBytes, a.Total.LiveBytes, r.varLive)
				if r.hugeAllocs != 16 {
					t.Errorf("saw %d blocks of 1 MiB, want all 16", r.hugeAllocs)
				}
				if loss.Lost() != 0 {
					t.Errorf("lost events: %+v", loss)
				}
				if got := uint64(r.unknownFrees); haveAtomics.Probe() == nil && got > a.Total.Free/20 {
					t.Errorf("%d of %d frees were of blocks that are not in the sample: the filter let them pass", got, a.Total.Free)
				}
			})
		}
	}
}

// An interval of 0 records every block, and says which are temporary.
func TestSamplingTracerRecordsAll(t *testing.T) {
	p := start(t, nil, "every_function")
	a, events, _, loss := trace(t, Config{StackDepth: 16, Sampling: true}, p)
	p.finish()
	if got := countCalls(events); got != a.Total {
		t.Errorf("\n got %+v\nwant %+v", got, a.Total)
	}
	if loss.Lost() != 0 {
		t.Errorf("lost events: %+v", loss)
	}
}
