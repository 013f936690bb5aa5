package analyzer

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/memtrace/memtrace/tracer/event"
)

// churn makes a load of frees and allocations in turn over live blocks, as a
// busy allocator would: a freed address is soon used again. Events are made in
// batches outside of the measured time.
type churn struct {
	r     *rand.Rand
	live  []uint64
	free  []uint64
	batch []event.Event
	time  uint64
	site  *rand.Zipf // of 1,000, some much busier than others
	young bool       // free mostly young blocks, as programs do, not any block
}

const benchBatch = 4096

func newChurn(live int) *churn {
	r := rand.New(rand.NewPCG(3, 4))
	c := &churn{r: r, site: rand.NewZipf(r, 1.1, 1, 999), batch: make([]event.Event, 0, benchBatch)}
	for i := range live + live/8 + 64 {
		c.free = append(c.free, 0x7f1200000000+uint64(i)*64)
	}
	c.r.Shuffle(len(c.free), func(i, j int) { c.free[i], c.free[j] = c.free[j], c.free[i] })
	return c
}

func (c *churn) alloc() {
	k := c.r.IntN(len(c.free))
	if c.young { // allocators hand out what was freed last
		k = len(c.free) - 1 - k%min(100, len(c.free))
	}
	addr := c.free[k]
	c.free[k] = c.free[len(c.free)-1]
	c.free = c.free[:len(c.free)-1]
	c.live = append(c.live, addr)
	c.time += 100
	c.batch = append(c.batch, event.Event{
		Time: c.time, Addr: addr, Size: 16 + c.r.Uint64N(256), Kind: event.Alloc, PID: 7, TID: 7 + c.r.Uint32N(4),
		Stack: event.StackID(1+c.site.Uint64()) * 0x9e3779b97f4a7c15,
	})
}

func (c *churn) release() {
	k := c.r.IntN(len(c.live))
	if c.young && c.r.IntN(16) != 0 {
		k = len(c.live) - 1 - k%min(1000, len(c.live))
	}
	addr := c.live[k]
	c.live[k] = c.live[len(c.live)-1]
	c.live = c.live[:len(c.live)-1]
	c.free = append(c.free, addr)
	c.time += 100
	c.batch = append(c.batch, event.Event{Time: c.time, Addr: addr, Kind: event.Free, PID: 7, TID: 7 + c.r.Uint32N(4)})
}

// fill applies the allocations that build up the live heap.
func (c *churn) fill(live int, apply func([]event.Event)) {
	for len(c.live) < live {
		c.batch = c.batch[:0]
		for len(c.batch) < benchBatch && len(c.live) < live {
			c.alloc()
		}
		apply(c.batch)
	}
}

// next makes the following batch, half frees and half allocations.
func (c *churn) next() []event.Event {
	c.batch = c.batch[:0]
	for len(c.batch) < benchBatch {
		c.release()
		c.alloc()
	}
	return c.batch
}

func benchChurn(b *testing.B, live int, young bool, apply func([]event.Event)) {
	c := newChurn(live)
	c.young = young
	c.fill(live, apply)
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; done += benchBatch {
		b.StopTimer()
		batch := c.next()
		b.StartTimer()
		apply(batch[:min(benchBatch, b.N-done)])
	}
}

var benchSizes = []int{10_000, 1_000_000, 10_000_000}

// benchLoads runs a benchmark for each load: blocks that die young, as in most
// programs, and blocks freed in any order, where every event misses the cache.
func benchLoads(b *testing.B, run func(b *testing.B, live int, young bool)) {
	for _, live := range benchSizes {
		b.Run(fmt.Sprintf("live=%d/young", live), func(b *testing.B) { run(b, live, true) })
		b.Run(fmt.Sprintf("live=%d/any", live), func(b *testing.B) { run(b, live, false) })
	}
}

// BenchmarkApply is the time of one event of a malloc/free load.
func BenchmarkApply(b *testing.B) {
	benchLoads(b, func(b *testing.B, live int, young bool) {
		a := New(Config{})
		defer a.Close()
		a.AddProcess(ProcessInfo{PID: 7})
		benchChurn(b, live, young, a.Apply)
		h := a.processes[0].heap
		b.ReportMetric(float64(h.bytes())/float64(h.count), "bytes/block")
	})
}

// BenchmarkApplyFloorMap does the least that could be called following the
// heap: a Go map of addresses.
func BenchmarkApplyFloorMap(b *testing.B) {
	benchLoads(b, func(b *testing.B, live int, young bool) {
		m := make(map[uint64]slot)
		benchChurn(b, live, young, func(events []event.Event) {
			for i := range events {
				if e := &events[i]; e.Kind == event.Alloc {
					m[e.Addr] = slot{e.Addr, e.Size, e.Time}
				} else {
					delete(m, e.Addr)
				}
			}
		})
	})
}

// BenchmarkApplyFloorLoop does nothing but read the events.
func BenchmarkApplyFloorLoop(b *testing.B) {
	var sum uint64
	benchChurn(b, 1_000_000, false, func(events []event.Event) {
		for i := range events {
			sum += events[i].Addr
		}
	})
	runtime.KeepAlive(sum)
}

// BenchmarkLiveHeapGrow is the time to insert a block into a heap that grows
// to n blocks.
func BenchmarkLiveHeapGrow(b *testing.B) {
	for _, n := range benchSizes {
		b.Run(fmt.Sprintf("blocks=%d", n), func(b *testing.B) {
			h := newTestHeap()
			for i := range b.N {
				if i%n == 0 {
					h.close()
				}
				if _, _, err := h.put(block{addr: 0x7f1200000000 + uint64(i%n)*64, size: 64}, h.hash(0x7f1200000000+uint64(i%n)*64)); err != nil {
					b.Fatal(err)
				}
			}
			if h.count > 1000 {
				b.ReportMetric(float64(h.bytes())/float64(h.count), "bytes/block")
			}
			h.close()
		})
	}
}

// BenchmarkLiveHeapDensity reports the most memory a block takes while a heap
// grows from a tenth of n to n blocks, and while it shrinks back.
func BenchmarkLiveHeapDensity(b *testing.B) {
	for _, n := range []uint64{1_000_000, 10_000_000} {
		b.Run(fmt.Sprintf("blocks=%d", n), func(b *testing.B) {
			var grown, shrunk float64
			for range b.N {
				grown, shrunk = density(b, n)
			}
			b.ReportMetric(grown, "bytes/block-growing")
			b.ReportMetric(shrunk, "bytes/block-shrinking")
		})
	}
}

func density(b *testing.B, n uint64) (grown, shrunk float64) {
	h := newTestHeap()
	defer h.close()
	worst := func(old float64) float64 {
		if h.count < n/10 || h.count%1000 != 0 {
			return old
		}
		return max(old, float64(h.bytes())/float64(h.count))
	}
	for i := range n {
		if _, _, err := h.put(block{addr: 0x7f1200000000 + i*64, size: 64}, h.hash(0x7f1200000000+i*64)); err != nil {
			b.Fatal(err)
		}
		grown = worst(grown)
	}
	for i := range n {
		h.remove(0x7f1200000000+i*64, h.hash(0x7f1200000000+i*64))
		shrunk = worst(shrunk)
	}
	return grown, shrunk
}

// BenchmarkSurvey is the time a live block costs at each Report.
func BenchmarkSurvey(b *testing.B) {
	a := New(Config{})
	defer a.Close()
	a.AddProcess(ProcessInfo{PID: 7})
	c := newChurn(1_000_000)
	c.fill(1_000_000, a.Apply)
	b.ResetTimer()
	for done := 0; done < b.N; done += 1_000_000 {
		a.visitBlocks(c.time)
	}
}
