package analyzer

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/tracer/event"
)

func (t *trace) mmap(start, pages int, stack event.StackID) *trace {
	return t.add(event.Event{Kind: event.Mmap, Addr: uint64(start) * pageBytes, Size: uint64(pages) * pageBytes, Stack: stack})
}

func (t *trace) munmap(start, pages int) *trace {
	return t.add(event.Event{Kind: event.Munmap, Addr: uint64(start) * pageBytes, Size: uint64(pages) * pageBytes})
}

// mremap began ago ns before it returned.
func (t *trace) mremap(old, was, start, pages int, stack event.StackID, ago uint64) *trace {
	return t.add(event.Event{Kind: event.Mremap, Old: uint64(old) * pageBytes, Child: uint32(uint64(was) * pageBytes >> 12),
		Addr: uint64(start) * pageBytes, Size: uint64(pages) * pageBytes, Stack: stack, Began: testStart + t.time + 1000 - ago})
}

// regionCounts are a site's live pages and pieces, mapped pages and calls, unmapped and inherited pages.
type regionCounts struct{ live, pieces, mapped, calls, unmapped, inherited int }

func regionsOf(a *Analyzer, pid int) map[event.StackID]regionCounts {
	out := make(map[event.StackID]regionCounts)
	regions, _ := a.reportRegions(0)
	for _, r := range regions {
		if r.PID != pid {
			continue
		}
		in := func(bytes uint64) int { return int(bytes / pageBytes) }
		out[a.regions.all[r.ID].stack] = regionCounts{in(r.LiveBytes), int(r.LiveCount), in(r.MappedBytes), int(r.MappedCount), in(r.UnmappedBytes), in(r.InheritedBytes)}
	}
	return out
}

type regionsWant map[event.StackID]regionCounts

var regionCases = []struct {
	name  string
	trace *trace
	want  regionsWant
}{
	{"a hole makes two pieces", new(trace).mmap(16, 10, 1).munmap(20, 2), regionsWant{1: {8, 2, 10, 1, 2, 0}}},
	{"the edges go", new(trace).mmap(16, 10, 1).munmap(10, 8).munmap(25, 9), regionsWant{1: {7, 1, 10, 1, 3, 0}}},
	{"several at once", new(trace).mmap(16, 4, 1).mmap(20, 4, 2).mmap(30, 4, 1).munmap(18, 14), regionsWant{1: {4, 2, 8, 2, 4, 0}, 2: {0, 0, 4, 1, 4, 0}}},
	{"mapped over", new(trace).mmap(16, 10, 1).mmap(18, 4, 2).mmap(16, 1, 2), regionsWant{1: {5, 2, 10, 1, 5, 0}, 2: {5, 2, 5, 2, 0, 0}}},
	{"parts of a page count as pages", new(trace).add(event.Event{Kind: event.Mmap, Addr: 16 * pageBytes, Size: 10, Stack: 1}).
		add(event.Event{Kind: event.Munmap, Addr: 16 * pageBytes, Size: 1}), regionsWant{1: {0, 0, 1, 1, 1, 0}}},
	{"of memory that is not known", new(trace).munmap(16, 10), regionsWant{}},
	{"mremap grows in place", new(trace).mmap(16, 4, 1).mremap(16, 4, 16, 9, 2, 500), regionsWant{1: {0, 0, 4, 1, 4, 0}, 2: {9, 1, 9, 1, 0, 0}}},
	{"mremap moves", new(trace).mmap(16, 4, 1).mremap(16, 4, 40, 4, 1, 500), regionsWant{1: {4, 1, 8, 2, 4, 0}}},
	{"mremap shrinks", new(trace).mmap(16, 9, 1).mremap(16, 9, 16, 2, 2, 500), regionsWant{1: {0, 0, 9, 1, 9, 0}, 2: {2, 1, 2, 1, 0, 0}}},
	{"mremap of a part", new(trace).mmap(16, 9, 1).mremap(18, 2, 40, 3, 2, 500), regionsWant{1: {7, 2, 9, 1, 2, 0}, 2: {3, 1, 3, 1, 0, 0}}},
	{"another thread maps what mremap left", new(trace).mmap(16, 4, 1).mmap(16, 4, 3).mremap(16, 4, 40, 4, 2, 1500),
		regionsWant{1: {0, 0, 4, 1, 4, 0}, 2: {4, 1, 4, 1, 0, 0}, 3: {4, 1, 4, 1, 0, 0}}},
	{"mremap of more than can be told", new(trace).mmap(16, 4, 1).add(event.Event{Kind: event.Mremap, Old: 16 * pageBytes, Child: 1<<32 - 1,
		Addr: 16 * pageBytes, Size: pageBytes, Stack: 2, Began: testStart + 1500}), regionsWant{1: {0, 0, 4, 1, 4, 0}, 2: {1, 1, 1, 1, 0, 0}}},
	{"a segment that nobody looked at", new(trace).add(event.Event{Kind: event.Mmap, Addr: 16 * pageBytes, Stack: 1}), regionsWant{1: {0, 1, 0, 1, 0, 0}}},
	{"a segment ends as a whole", new(trace).add(event.Event{Kind: event.Mmap, Addr: 16 * pageBytes, Stack: 1}).
		add(event.Event{Kind: event.Munmap, Addr: 16 * pageBytes}), regionsWant{1: {0, 0, 0, 1, 0, 0}}},
	{"munmap of nothing ends nothing", new(trace).mmap(16, 4, 1).munmap(16, 0), regionsWant{1: {4, 1, 4, 1, 0, 0}}},
	{"the top of the address space", new(trace).add(event.Event{Kind: event.Mmap, Addr: 1<<64 - 4096, Size: 1 << 20, Stack: 1}), regionsWant{}},
	{"exec ends all", new(trace).mmap(16, 4, 1).kind(event.Exec).mmap(16, 2, 2), regionsWant{1: {0, 0, 4, 1, 4, 0}, 2: {2, 1, 2, 1, 0, 0}}},
	{"what there was at the end stays", new(trace).mmap(16, 4, 1).kind(event.Exit), regionsWant{1: {4, 1, 4, 1, 0, 0}}},
}

func TestRegionsOfATrace(t *testing.T) {
	for _, c := range regionCases {
		t.Run(c.name, func(t *testing.T) {
			a := newTestAnalyzer(t)
			a.AddProcess(ProcessInfo{PID: testPID})
			a.Apply(c.trace.events)
			got := regionsOf(a, testPID)
			for stack, want := range c.want {
				if got[stack] != want {
					t.Errorf("site %d: got %+v, want %+v", stack, got[stack], want)
				}
			}
			if len(got) != len(c.want) {
				t.Errorf("sites %v", got)
			}
		})
	}
}

// TestProgramBreak: moves of the break are bytes, not pages; those of frees count for nothing.
func TestProgramBreak(t *testing.T) {
	a := newTestAnalyzer(t)
	a.AddProcess(ProcessInfo{PID: testPID})
	brk := func(k event.Kind, addr, size uint64) event.Event {
		return event.Event{Kind: k, Addr: addr, Size: size, Stack: 1, Flags: event.FlagBrk}
	}
	tr := new(trace).add(brk(event.Mmap, 0x1000, 100)).add(brk(event.Mmap, 0x1000+100, 5000)).
		add(brk(event.Munmap, 0x1000+4000, 1100)).add(brk(event.Munmap, 0x9000, 0x1000))
	a.Apply(tr.events)
	r, _ := a.reportRegions(0)
	if len(r) != 1 || r[0].LiveBytes != 4000 || r[0].MappedBytes != 5100 || r[0].LiveCount != 2 {
		t.Errorf("got %+v", r)
	}
	if a.events.Mmap != 2 || a.events.Munmap != 1 {
		t.Errorf("events %+v", a.events)
	}
}

// TestRegionsOfAChild: a forked child has its parent's regions, and parts with them alone.
func TestRegionsOfAChild(t *testing.T) {
	const child = 200
	a := New(Config{Start: testStart, FollowForks: true})
	onTape(t, a)
	t.Cleanup(a.Close)
	a.AddProcess(ProcessInfo{PID: testPID})
	tr := new(trace).mmap(16, 4, 1).mmap(30, 4, 2).add(event.Event{Kind: event.Fork, Child: child}).munmap(30, 4)
	tr.munmap(16, 1).events[len(tr.events)-1].PID = child
	tr.mmap(50, 3, 1).events[len(tr.events)-1].PID = child
	a.Apply(tr.events)
	check := func(pid int, want regionsWant) {
		t.Helper()
		got := regionsOf(a, pid)
		for stack := range want {
			if got[stack] != want[stack] {
				t.Errorf("process %d, site %d: got %+v, want %+v", pid, stack, got[stack], want[stack])
			}
		}
	}
	check(testPID, regionsWant{1: {4, 1, 4, 1, 0, 0}, 2: {0, 0, 4, 1, 4, 0}})
	check(child, regionsWant{1: {6, 2, 3, 1, 1, 4}, 2: {4, 1, 0, 0, 0, 4}})
	a.Apply(new(trace).add(event.Event{Kind: event.Exit, PID: child, Time: 1}).events)
	check(child, regionsWant{1: {3, 1, 3, 1, 4, 4}}) // what it had from its parent is not its own doing
	if used := maxRegions - a.regions.room; used != 1 {
		t.Errorf("%d regions are kept, want the parent's", used)
	}
}

// TestPauseForgetsRegions: while nothing is seen, anything may be unmapped.
func TestPauseForgetsRegions(t *testing.T) {
	a := newTestAnalyzer(t)
	a.AddProcess(ProcessInfo{PID: testPID})
	a.Apply(new(trace).mmap(16, 4, 1).events)
	a.Pause()
	if got := regionsOf(a, testPID)[1]; got.live != 0 || a.regions.room != maxRegions {
		t.Errorf("got %+v, room %d", got, a.regions.room)
	}
}

// TestTooManyRegions: what is not kept is counted, and the Report says so.
func TestTooManyRegions(t *testing.T) {
	a := newTestAnalyzer(t)
	a.AddProcess(ProcessInfo{PID: testPID})
	a.regions.room = 10
	tr := new(trace)
	for i := range 12 {
		tr.mmap(16+4*i, 3, event.StackID(1+i%2))
	}
	tr.munmap(17, 1) // would make two of one
	a.Apply(tr.events)
	warnings := strings.Join(a.warnings(), "\n")
	if !strings.Contains(warnings, "3 mappings, or parts of some, are not tracked") {
		t.Errorf("warnings %q", warnings)
	}
	got := regionsOf(a, testPID)
	if sum := got[1].live + got[2].live; sum != 28 || got[1].calls != 6 {
		t.Errorf("%d pages live, %+v", sum, got)
	}
}

// TestTooManyRegionSites: later call sites are counted as one.
func TestTooManyRegionSites(t *testing.T) {
	a := newTestAnalyzer(t)
	a.AddProcess(ProcessInfo{PID: testPID})
	a.regions.all = make([]regionSite, maxRegionSites-1)
	a.Apply(new(trace).mmap(16, 1, 1).mmap(20, 1, 2).mmap(30, 1, 3).events)
	all := a.regions.all
	if last := &all[len(all)-1]; len(all) != maxRegionSites+1 || !last.other || last.liveCount != 2 || a.regions.beyond != 2 {
		t.Errorf("%d sites, %d mappings beyond", len(all), a.regions.beyond)
	}
}

// TestSplitByRegions: memory that the program was seen to map is other
// anonymous memory and explained, beside blocks in the same mapping or not.
func TestSplitByRegions(t *testing.T) {
	vmas := []fakeVMA{
		{32, "PPPPPP--", "rw-p", "[heap]", -1},              // the program moved the break by its last four
		{64, "PPPPSSPPP-", "rw-p", "", -1},                  // two sites, and two pages that nobody was seen to map
		{80, "PP-PPPPP", "rw-p", "", -1},                    // blocks in the first half, a region in the other
		{96, "PPP-", "rw-p", "", -1},                        // a region in which an allocator puts its blocks
		{110, "PP--", "rw-s", "/SYSV00000001 (deleted)", 0}, // attached
		{120, "PPPPP", "r--p", "/usr/lib/data", 0},          // the program's file
		{130, "PP", "rw-p", "", -1},                         // from before
		{140, "PP", "rw-p", "/usr/lib/one.so", 1},           // a library's data,
		{142, "PP-PPP", "rw-p", "", -1},                     // its .bss, and three pages that the program mapped right behind
		{150, "P", "rw-p", "/usr/lib/two.so", 1},            // one without .bss,
		{151, "PP", "rw-p", "", -1},                         // with two of the program's behind
	}
	p, dir := fakeProcess(t, vmas)
	a := newTestAnalyzer(t)
	a.AddProcess(ProcessInfo{PID: 77})
	tr := new(trace)
	tr.add(event.Event{Kind: event.Mmap, Addr: 36 * pageBytes, Size: 4 * pageBytes, Stack: 1, Flags: event.FlagBrk}).
		mmap(64, 5, 2).mmap(69, 3, 3).mmap(84, 4, 4).mmap(96, 4, 5).mmap(120, 5, 7).mmap(200, 3, 8).mmap(145, 3, 10).mmap(151, 2, 11).
		add(event.Event{Kind: event.Mmap, Addr: 110 * pageBytes, Stack: 6}).
		malloc(80*pageBytes, pageBytes, 9).malloc(96*pageBytes, 100, 9)
	for i := range tr.events {
		tr.events[i].PID = 77
	}
	a.Apply(tr.events)
	var sampler Sampler
	if _, err := sampler.Sample(a, p, nil, testStart+1, a.give); err != nil {
		t.Fatal(err)
	}
	c := &a.byPID[77].pages
	by := c.rssBy
	if by.HeapLive != pageBytes+100 || by.HeapOverhead != (4+2+3)*pageBytes-100 || by.AnonMmap != 20*pageBytes || by.Other != 4*pageBytes || by.Sum() != c.usage.RSS {
		t.Errorf("live %d, overhead %d, anonymous %d pages, other %d", by.HeapLive, by.HeapOverhead, by.AnonMmap/pageBytes, by.Other/pageBytes)
	}
	if want := (2 + 4 + 2 + 4 + 3 + 2) * pageBytes; c.traced != want {
		t.Errorf("%d pages of the other anonymous memory are explained, want %d", c.traced/pageBytes, want/pageBytes)
	}
	checkMemory(t, a, map[event.StackID]memoryWant{
		1: {"brk", 2, 0, 4, false}, 2: {"anon", 4, 1, 5, false}, 3: {"anon", 2, 1, 3, false}, 4: {"anon", 4, 0, 4, false},
		5: {"anon", 3, 0, 4, true}, 6: {"shm", 2, 0, 4, false}, 7: {"file", 5, 0, 5, false}, 8: {"unknown", 0, 0, 3, false},
		10: {"anon", 3, 0, 3, false}, 11: {"anon", 2, 0, 2, false},
	})

	// The region that was never there goes at the second reading, and so does what another one lost unseen.
	vmas[3].pages = "PPP"
	rewriteProcess(t, dir, vmas)
	for _, left := range []int{4, 3} {
		if _, err := sampler.Sample(a, p, nil, testStart+2, a.give); err != nil {
			t.Fatal(err)
		}
		if got := regionsOf(a, 77); got[8].live != 0 || got[5].live != left {
			t.Errorf("sites 8 and 5 have %+v and %+v, want nothing and %d pages", got[8], got[5], left)
		}
	}
}

type memoryWant struct {
	kind                  string
	resident, swap, pages int
	allocator             bool
}

func checkMemory(t *testing.T, a *Analyzer, want map[event.StackID]memoryWant) {
	t.Helper()
	regions, _ := a.reportRegions(0)
	for _, r := range regions {
		got := memoryWant{r.Kind, int(r.ResidentBytes / pageBytes), int(r.SwappedBytes / pageBytes), int(r.LiveBytes / pageBytes), r.Allocator}
		if w := want[a.regions.all[r.ID].stack]; got != w {
			t.Errorf("site %d: got %+v, want %+v", a.regions.all[r.ID].stack, got, w)
		}
	}
	if len(regions) != len(want) {
		t.Errorf("%d sites, want %d", len(regions), len(want))
	}
}

// BenchmarkRegionsOfATrace applies events of a program that maps and unmaps among many mappings.
func BenchmarkRegionsOfATrace(b *testing.B) {
	const live = 30_000
	a := New(Config{Start: testStart})
	defer a.Close()
	a.AddProcess(ProcessInfo{PID: testPID})
	tr := new(trace)
	for i := range live {
		tr.mmap(16+8*i, 4, event.StackID(1+i%100))
	}
	a.Apply(tr.events)
	rng := rand.New(rand.NewPCG(1, 2))
	again := new(trace)
	for range 1000 {
		at := 16 + 8*rng.IntN(live)
		again.munmap(at, 4).mmap(at, 4, event.StackID(1+rng.IntN(100)))
	}
	b.ReportAllocs()
	for b.Loop() {
		a.Apply(again.events)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(again.events)), "ns/event")
}

// TestRegionsHaveThePagesOfTheirMachine: a trace may be read on a machine with pages of another size.
func TestRegionsHaveThePagesOfTheirMachine(t *testing.T) {
	for _, page := range []uint64{4 << 10, 64 << 10} {
		a := New(Config{Start: testStart, PageSize: page})
		a.AddProcess(ProcessInfo{PID: testPID})
		a.Apply(new(trace).add(event.Event{Kind: event.Mmap, Addr: 1 << 20, Size: 10, Stack: 1}).
			add(event.Event{Kind: event.Munmap, Addr: 1 << 20, Size: 1}).events)
		if got := a.regions.all[0]; got.mappedBytes != page || got.liveBytes != 0 {
			t.Errorf("with pages of %d, ten bytes are %d, and %d are left after its page was unmapped", page, got.mappedBytes, got.liveBytes)
		}
	}
}
