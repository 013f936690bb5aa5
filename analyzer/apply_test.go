package analyzer

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/tracer/event"
)

const (
	testPID   = 100
	testStart = 1_000_000
)

// trace builds the events of one process, 1,000 ns apart.
type trace struct {
	events []event.Event
	time   uint64
}

func (t *trace) add(e event.Event) *trace {
	t.time += 1000
	e.Time = testStart + t.time
	if e.PID == 0 {
		e.PID = testPID
	}
	if e.TID == 0 {
		e.TID = testPID
	}
	t.events = append(t.events, e)
	return t
}

// on makes the latest event another thread's.
func (t *trace) on(tid uint32) *trace {
	t.events[len(t.events)-1].TID = tid
	return t
}

func (t *trace) malloc(addr, size uint64, stack event.StackID) *trace {
	return t.add(event.Event{Kind: event.Alloc, Addr: addr, Size: size, Stack: stack})
}

func (t *trace) free(addr uint64) *trace {
	return t.add(event.Event{Kind: event.Free, Addr: addr})
}

// realloc returns now and began ago ns earlier.
func (t *trace) realloc(old, addr, size uint64, stack event.StackID, ago uint64) *trace {
	began := testStart + t.time + 1000 - ago
	return t.add(event.Event{Kind: event.Realloc, Old: old, Addr: addr, Size: size, Stack: stack, Began: began})
}

func (t *trace) kind(k event.Kind) *trace { return t.add(event.Event{Kind: k}) }

func newTestAnalyzer(t *testing.T) *Analyzer {
	t.Helper()
	a := New(Config{Start: testStart})
	t.Cleanup(a.Close)
	onTape(t, a)
	a.AddProcess(ProcessInfo{PID: testPID, Comm: "prog"})
	return a
}

// siteCounts is what a test expects of a site: live blocks and bytes,
// allocations and their bytes, frees, temporary ones, peak.
type siteCounts struct{ liveCount, liveBytes, allocCount, allocBytes, frees, temp, peak uint64 }

func countsOf(s *site) siteCounts {
	return siteCounts{s.liveCount, s.liveBytes, s.allocCount, s.allocBytes, s.freeCount, s.tempCount, s.peakBytes}
}

func sitesByStack(a *Analyzer) map[event.StackID]siteCounts {
	out := make(map[event.StackID]siteCounts)
	for _, s := range a.sites.all {
		out[s.stack] = countsOf(s)
	}
	return out
}

// Each case is derived by hand from docs/counting.md.
var countingCases = []struct {
	name   string
	trace  *trace
	events report.Events
	sites  map[event.StackID]siteCounts
}{
	{"malloc", new(trace).malloc(0x1000, 40, 1).malloc(0x2000, 60, 1),
		report.Events{Alloc: 2}, map[event.StackID]siteCounts{1: {2, 100, 2, 100, 0, 0, 100}}},
	{"free by its own thread at once is temporary", new(trace).malloc(0x1000, 40, 1).free(0x1000),
		report.Events{Alloc: 1, Free: 1}, map[event.StackID]siteCounts{1: {0, 0, 1, 40, 1, 1, 40}}},
	{"free after another allocation is not", new(trace).malloc(0x1000, 40, 1).malloc(0x2000, 8, 2).free(0x1000),
		report.Events{Alloc: 2, Free: 1}, map[event.StackID]siteCounts{1: {0, 0, 1, 40, 1, 0, 40}, 2: {1, 8, 1, 8, 0, 0, 8}}},
	{"free by another thread is not", new(trace).malloc(0x1000, 40, 1).free(0x1000).on(7),
		report.Events{Alloc: 1, Free: 1}, map[event.StackID]siteCounts{1: {0, 0, 1, 40, 1, 0, 40}}},
	{"another thread's allocation in between does not matter",
		new(trace).malloc(0x1000, 40, 1).malloc(0x2000, 8, 2).on(7).free(0x1000),
		report.Events{Alloc: 2, Free: 1}, map[event.StackID]siteCounts{1: {0, 0, 1, 40, 1, 1, 40}, 2: {1, 8, 1, 8, 0, 0, 8}}},
	{"the address alone does not make it temporary: the block is another thread's",
		new(trace).malloc(0x1000, 40, 1).free(0x1000).on(7).malloc(0x1000, 8, 2).on(7).free(0x1000),
		report.Events{Alloc: 2, Free: 2}, map[event.StackID]siteCounts{1: {0, 0, 1, 40, 1, 0, 40}, 2: {0, 0, 1, 8, 1, 0, 8}}},
	{"free of NULL is nothing", new(trace).free(0), report.Events{}, nil},
	{"free of an unknown block", new(trace).free(0x9000), report.Events{Free: 1, UnmatchedFree: 1}, nil},
	{"second free of a block", new(trace).malloc(0x1000, 40, 1).free(0x1000).free(0x1000),
		report.Events{Alloc: 1, Free: 2, UnmatchedFree: 1}, map[event.StackID]siteCounts{1: {0, 0, 1, 40, 1, 1, 40}}},
	{"malloc of 0 bytes is a block", new(trace).malloc(0x1000, 0, 1),
		report.Events{Alloc: 1}, map[event.StackID]siteCounts{1: {1, 0, 1, 0, 0, 0, 0}}},
	{"failures change nothing", new(trace).malloc(0x1000, 40, 1).kind(event.AllocFailed).
		add(event.Event{Kind: event.ReallocFailed, Old: 0x1000, Size: 1 << 40}),
		report.Events{Alloc: 1, Failed: 2}, map[event.StackID]siteCounts{1: {1, 40, 1, 40, 0, 0, 40}}},
	{"mappings are counted", new(trace).kind(event.Mmap).kind(event.Mmap).kind(event.Munmap), report.Events{Mmap: 2, Munmap: 1}, nil},

	{"realloc moves a block to its own site", new(trace).malloc(0x1000, 40, 1).malloc(0x5000, 1, 3).realloc(0x1000, 0x2000, 100, 2, 500),
		report.Events{Alloc: 2, Realloc: 1}, map[event.StackID]siteCounts{1: {0, 0, 1, 40, 1, 0, 40}, 2: {1, 100, 1, 100, 0, 0, 100}, 3: {1, 1, 1, 1, 0, 0, 1}}},
	{"realloc in place", new(trace).malloc(0x1000, 40, 1).malloc(0x5000, 1, 3).realloc(0x1000, 0x1000, 100, 1, 500),
		report.Events{Alloc: 2, Realloc: 1}, map[event.StackID]siteCounts{1: {1, 100, 2, 140, 1, 0, 100}, 3: {1, 1, 1, 1, 0, 0, 1}}},
	{"realloc of NULL is malloc", new(trace).realloc(0, 0x1000, 40, 1, 500),
		report.Events{Realloc: 1}, map[event.StackID]siteCounts{1: {1, 40, 1, 40, 0, 0, 40}}},
	{"realloc to nothing is free", new(trace).malloc(0x1000, 40, 1).realloc(0x1000, 0, 0, 1, 500),
		report.Events{Alloc: 1, Realloc: 1}, map[event.StackID]siteCounts{1: {0, 0, 1, 40, 1, 1, 40}}},
	{"realloc of an unknown block", new(trace).realloc(0x9000, 0x1000, 40, 1, 500),
		report.Events{Realloc: 1, UnmatchedFree: 1}, map[event.StackID]siteCounts{1: {1, 40, 1, 40, 0, 0, 40}}},

	{"allocation over a live block", new(trace).malloc(0x1000, 40, 1).malloc(0x1000, 8, 2),
		report.Events{Alloc: 2, Overwritten: 1}, map[event.StackID]siteCounts{1: {0, 0, 1, 40, 1, 0, 40}, 2: {1, 8, 1, 8, 0, 0, 8}}},
	// The realloc began at 1.5 µs, the other thread got the old address at 2 µs.
	{"old address reused before realloc returns",
		new(trace).malloc(0x1000, 40, 1).malloc(0x1000, 8, 2).on(7).realloc(0x1000, 0x2000, 100, 3, 1500),
		report.Events{Alloc: 2, Realloc: 1}, map[event.StackID]siteCounts{1: {0, 0, 1, 40, 1, 0, 40}, 2: {1, 8, 1, 8, 0, 0, 8}, 3: {1, 100, 1, 100, 0, 0, 100}}},
	{"and freed again", new(trace).malloc(0x1000, 40, 1).malloc(0x1000, 8, 2).on(7).free(0x1000).on(7).realloc(0x1000, 0x2000, 100, 3, 2500),
		report.Events{Alloc: 2, Free: 1, Realloc: 1}, map[event.StackID]siteCounts{1: {0, 0, 1, 40, 1, 0, 40}, 2: {0, 0, 1, 8, 1, 1, 8}, 3: {1, 100, 1, 100, 0, 0, 100}}},
	// It began at 2.5 µs, after the overwrite at 2 µs: a free was lost, and the
	// realloc was of the newer block.
	{"overwrite before realloc began", new(trace).malloc(0x1000, 40, 1).malloc(0x1000, 8, 2).realloc(0x1000, 0x2000, 100, 3, 500),
		report.Events{Alloc: 2, Realloc: 1, Overwritten: 1}, map[event.StackID]siteCounts{1: {0, 0, 1, 40, 1, 0, 40}, 2: {0, 0, 1, 8, 1, 1, 8}, 3: {1, 100, 1, 100, 0, 0, 100}}},
	// The old block is from before the attach, so nothing was overwritten.
	{"old address of an unknown block reused before realloc returns",
		new(trace).malloc(0x1000, 8, 2).on(7).realloc(0x1000, 0x2000, 100, 3, 1500),
		report.Events{Alloc: 1, Realloc: 1, UnmatchedFree: 1}, map[event.StackID]siteCounts{2: {1, 8, 1, 8, 0, 0, 8}, 3: {1, 100, 1, 100, 0, 0, 100}}},
	// Two reallocs pass one address on: B gets A's old block while A's call runs.
	{"realloc into an address that another realloc is leaving",
		new(trace).malloc(0x1000, 40, 1).malloc(0x3000, 30, 1).on(7).
			realloc(0x3000, 0x1000, 31, 2, 400).on(7).realloc(0x1000, 0x2000, 100, 3, 1900),
		report.Events{Alloc: 2, Realloc: 2}, map[event.StackID]siteCounts{1: {0, 0, 2, 70, 2, 1, 70}, 2: {1, 31, 1, 31, 0, 0, 31}, 3: {1, 100, 1, 100, 0, 0, 100}}},

	{"no stack is a site of its own", new(trace).malloc(0x1000, 40, 0).malloc(0x2000, 2, 5),
		report.Events{Alloc: 2}, map[event.StackID]siteCounts{0: {1, 40, 1, 40, 0, 0, 40}, 5: {1, 2, 1, 2, 0, 0, 2}}},
}

func TestCounting(t *testing.T) {
	for _, c := range countingCases {
		t.Run(c.name, func(t *testing.T) {
			a := newTestAnalyzer(t)
			a.Apply(c.trace.events)
			if a.events != c.events {
				t.Errorf("events\n got %+v\nwant %+v", a.events, c.events)
			}
			got := sitesByStack(a)
			if len(got) != len(c.sites) {
				t.Errorf("%d sites, want %d", len(got), len(c.sites))
			}
			for stack, want := range c.sites {
				if got[stack] != want {
					t.Errorf("site %d\n got %+v\nwant %+v", stack, got[stack], want)
				}
			}
			checkConservation(t, a)
		})
	}
}

// checkConservation sees that no block appears or vanishes, for each site and
// each process, and that the counters are those of the blocks in the heap.
func checkConservation(t *testing.T, a *Analyzer) {
	t.Helper()
	live := make(map[siteID]siteCounts)
	for p := range a.heaps {
		var sum report.Heap
		for b := range p.heap.all {
			c := live[b.site]
			c.liveCount++
			c.liveBytes += b.size
			live[b.site] = c
			sum.LiveCount++
			sum.LiveBytes += b.size
		}
		if sum.LiveCount != p.total.LiveCount || sum.LiveBytes != p.total.LiveBytes {
			t.Errorf("process %d counts %d live bytes in %d blocks, its heap holds %d in %d", p.info.PID,
				p.total.LiveBytes, p.total.LiveCount, sum.LiveBytes, sum.LiveCount)
		}
	}
	for id, s := range a.sites.all {
		if s.allocCount+s.inherited != s.freeCount+s.gone+s.liveCount {
			t.Errorf("site %d: %d allocated + %d inherited != %d freed + %d gone + %d live",
				id, s.allocCount, s.inherited, s.freeCount, s.gone, s.liveCount)
		}
		if c := live[id]; c.liveCount != s.liveCount || c.liveBytes != s.liveBytes {
			t.Errorf("site %d counts %d live bytes in %d blocks, the heap holds %d in %d",
				id, s.liveBytes, s.liveCount, c.liveBytes, c.liveCount)
		}
		if s.sizes.Total() != s.allocCount || s.lifetimes.Total() != s.freeCount {
			t.Errorf("site %d: histograms count %d sizes and %d lifetimes, of %d allocations and %d frees",
				id, s.sizes.Total(), s.lifetimes.Total(), s.allocCount, s.freeCount)
		}
	}
}

// TestConservation applies random events of few addresses, so that all sorts
// of collisions come up: lost frees, double frees, reallocs in flight, execs.
func TestConservation(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 5))
		a := newTestAnalyzer(t)
		a.AddProcess(ProcessInfo{PID: testPID + 1})
		for range 20 {
			var tr trace
			tr.time = a.since(testStart) + seed
			for range 200 {
				tr.add(randomEvent(r))
			}
			a.Apply(tr.events)
			checkConservation(t, a)
		}
		if t.Failed() {
			t.Fatalf("with seed %d", seed)
		}
	}
}

func randomEvent(r *rand.Rand) event.Event {
	addr := func() uint64 { return r.Uint64N(30) * 16 }
	e := event.Event{
		PID: testPID + r.Uint32N(3), TID: 1 + r.Uint32N(5), Addr: addr(), Size: r.Uint64N(5000),
		Stack: event.StackID(r.Uint64N(6)), Kind: event.Kind(1 + r.IntN(3)),
	}
	switch r.IntN(60) {
	case 0:
		e.Kind = event.Exec
	case 1, 2:
		e.Kind = event.Fault
	case 3:
		e.Kind, e.Child, e.Flags = event.Fork, testPID+2, event.FlagSharedVM
	case 4:
		e.Kind = event.Kind(4 + r.IntN(4))
	}
	if e.Kind == event.Realloc {
		e.Old, e.Began = addr(), testStart+r.Uint64N(300_000)
	}
	return e
}

// TestBatchesDoNotMatter sees that it makes no difference how a trace is cut.
func TestBatchesDoNotMatter(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	var tr trace
	for range 5000 {
		tr.add(randomEvent(r))
	}
	whole, cut := newTestAnalyzer(t), newTestAnalyzer(t)
	whole.Apply(tr.events)
	for rest := tr.events; len(rest) > 0; {
		n := min(len(rest), 1+r.IntN(70))
		cut.Apply(rest[:n])
		rest = rest[n:]
	}
	if whole.events != cut.events {
		t.Errorf("events differ:\n%+v\n%+v", whole.events, cut.events)
	}
	if a, b := fmt.Sprint(sitesByStack(whole)), fmt.Sprint(sitesByStack(cut)); a != b {
		t.Errorf("sites differ:\n%s\n%s", a, b)
	}
}

// TestPeak follows the process's and a site's peak through frees and a realloc,
// which never holds both of its blocks.
func TestPeak(t *testing.T) {
	a := newTestAnalyzer(t)
	a.Apply(new(trace).malloc(0x1000, 100, 1).malloc(0x2000, 50, 1).free(0x1000).malloc(0x3000, 60, 2).
		realloc(0x3000, 0x4000, 95, 2, 10).events)
	h := a.processes[0].total
	// 100, 150 (at 2 µs), 50, 110, 145.
	if h.PeakBytes != 150 || h.PeakAtNS != 2000 || h.LiveBytes != 145 {
		t.Errorf("peak %d at %d, live %d; want 150 at 2000, 145", h.PeakBytes, h.PeakAtNS, h.LiveBytes)
	}
	if h.AllocCount != 4 || h.AllocBytes != 305 || h.FreeCount != 2 || h.TemporaryCount != 1 {
		t.Errorf("heap %+v; want 4 allocations of 305 bytes, 2 frees, 1 temporary", h)
	}
}
