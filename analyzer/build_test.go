package analyzer

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/tracer/event"
)

// names is a Symbolizer that knows some addresses, and counts its calls.
type names struct {
	of    map[uint64]string
	calls int
}

func (n *names) Frames(_ int, addrs []uint64, _ uint64) []*report.Frame {
	n.calls++
	var out []*report.Frame
	for _, addr := range addrs {
		f := &report.Frame{Function: n.of[addr]}
		if f.Function != "" {
			f.Module = "/bin/program"
		}
		out = append(out, f)
	}
	return out
}

// reportTrace makes three sites, which differ in their order by every key:
//
//	stack  live  alloc  count  peak  temporary  oldest since
//	1       100    100      1   100          0       1 µs
//	2        50    150      3    50          2       6 µs
//	3         0    500      1   500          0       -
func reportTrace() []event.Event {
	return new(trace).malloc(0x1000, 100, 1).malloc(0x2000, 50, 2).free(0x2000).malloc(0x2000, 50, 2).free(0x2000).
		malloc(0x2000, 50, 2).malloc(0x3000, 500, 3).on(9).free(0x3000).events
}

func TestReportOrder(t *testing.T) {
	for word, want := range map[string][]event.StackID{
		"": {1, 2, 3}, "live": {1, 2, 3}, "alloc": {3, 2, 1}, "count": {2, 1, 3},
		"peak": {3, 1, 2}, "temp": {2, 1, 3}, "age": {1, 2, 3}, "growth": {1, 2, 3},
	} {
		a := newTestAnalyzer(t)
		a.Apply(reportTrace())
		r := a.reportAt(testStart+10_000, ReportOptions{Sort: word}, nil)
		var got []event.StackID
		for _, s := range r.Sites {
			got = append(got, a.sites.at(siteID(s.ID)).stack)
		}
		if !slices.Equal(got, want) {
			t.Errorf("sorted by %q: sites %v, want %v", word, got, want)
		}
	}
}

// Stacks through code that goes away keep the names that it had; others get
// those of what is mapped at the end.
func TestNamesOfUnmappedCode(t *testing.T) {
	a := newTestAnalyzer(t)
	a.AddStack(event.Stack{ID: 7, PID: testPID, Frames: []uint64{0x10, 0x20}})
	a.AddStack(event.Stack{ID: 8, PID: testPID, Frames: []uint64{0x11, 0x21}})
	a.Apply(new(trace).malloc(0x1000, 100, 7).malloc(0x2000, 50, 8).events)
	a.nameStacks(testPID, &names{of: map[uint64]string{0x10: "old", 0x20: "main", 0x11: "wrong", 0x21: "wrong"}}, func(addr uint64) bool { return addr == 0x20 })
	r := a.reportAt(testStart+10_000, ReportOptions{}, &names{of: map[uint64]string{0x10: "wrong", 0x20: "main", 0x11: "new", 0x21: "main"}})
	if len(r.Sites) != 2 || r.Sites[0].Function != "old" || r.Sites[1].Function != "new" {
		t.Errorf("got %+v, want the sites old and new", r.Sites)
	}
}

// What is not known of a stack may be known at the next Report, and then stays; but not once
// its program is gone.
func TestUnknownCodeIsAskedForAgain(t *testing.T) {
	a := newTestAnalyzer(t)
	a.AddStack(event.Stack{ID: 7, PID: testPID, Frames: []uint64{0x10, 0x20}})
	a.AddStack(event.Stack{ID: 8, PID: testPID, Frames: []uint64{0x11}})
	a.Apply(new(trace).malloc(0x1000, 100, 7).malloc(0x2000, 50, 8).events)
	for _, c := range []struct {
		of   map[uint64]string
		want [2]string
	}{
		{map[uint64]string{0x20: "main"}, [2]string{"", ""}},
		{map[uint64]string{0x10: "plugin", 0x20: "main"}, [2]string{"plugin", ""}},
		{map[uint64]string{0x10: "wrong", 0x20: "wrong"}, [2]string{"plugin", ""}},
	} {
		r := a.reportAt(testStart+10_000, ReportOptions{}, &names{of: c.of})
		if r.Sites[0].Function != c.want[0] || r.Sites[1].Function != c.want[1] {
			t.Errorf("got %q and %q, want %q", r.Sites[0].Function, r.Sites[1].Function, c.want)
		}
	}
	a.nameStacks(testPID, &names{}, nil)
	r := a.reportAt(testStart+20_000, ReportOptions{}, &names{of: map[uint64]string{0x10: "wrong", 0x11: "wrong"}})
	if r.Sites[0].Function != "plugin" || r.Sites[1].Function != "" {
		t.Errorf("got %q and %q after the last names", r.Sites[0].Function, r.Sites[1].Function)
	}
}

func TestReportFigures(t *testing.T) {
	a := newTestAnalyzer(t)
	a.Apply(reportTrace())
	r := a.reportAt(testStart+10_000, ReportOptions{Top: 2, Final: true}, nil)
	if len(r.Sites) != 2 || r.SitesMore != 1 || !r.Final || r.WindowNS != 10_000 {
		t.Errorf("%d sites and %d more, final %v, window %d; want 2, 1, true, 10000", len(r.Sites), r.SitesMore, r.Final, r.WindowNS)
	}
	s := r.Sites[1]
	if s.OldestNS != 4000 || s.GrowthBytes != 50 || s.PID != testPID || fmt.Sprint(s.SizeHistogram) != "[[56 3]]" {
		t.Errorf("site %+v; want oldest 4000, growth 50, three sizes of (48, 56]", s)
	}
	a.Apply(new(trace).free(0x1000).events)
	r = a.reportAt(testStart+20_000, ReportOptions{}, nil)
	for _, s := range r.Sites {
		if want := map[uint64]int64{100: -100, 150: 0, 500: 0}[s.AllocBytes]; s.GrowthBytes != want {
			t.Errorf("site that allocated %d bytes grew by %d, want %d", s.AllocBytes, s.GrowthBytes, want)
		}
	}
}

// TestReportHasNoNull sees that JSON arrays are never null, least of all in an
// empty report.
func TestReportHasNoNull(t *testing.T) {
	empty, some := New(Config{}), newTestAnalyzer(t)
	defer empty.Close()
	some.Apply(reportTrace())
	for _, a := range []*Analyzer{empty, some} {
		text, err := json.Marshal(a.reportAt(testStart+10_000, ReportOptions{}, nil))
		if err != nil || strings.Contains(string(text), "null") {
			t.Errorf("%v in %s", err, text)
		}
	}
}

func TestSitesAreNamedOnce(t *testing.T) {
	n := &names{of: map[uint64]string{1: "operator new(unsigned long)", 2: "load(std::string const&)", 3: "main"}}
	a := newTestAnalyzer(t)
	a.AddStack(event.Stack{ID: 7, PID: testPID, Frames: []uint64{1, 2, 3}, Truncated: true})
	a.Apply(new(trace).malloc(0x1000, 100, 7).malloc(0x2000, 50, 8).malloc(0x3000, 25, 0).events)
	for range 2 {
		r := a.reportAt(testStart+10_000, ReportOptions{}, n)
		var got []string
		for _, s := range r.Sites {
			got = append(got, s.Function)
		}
		if want := []string{"load(std::string const&)", "[stack lost]", "[no stack]"}; !slices.Equal(got, want) {
			t.Errorf("functions %q, want %q", got, want)
		}
		if !r.Sites[0].Truncated || len(r.Sites[0].Stack) != 3 {
			t.Errorf("site %+v, want a truncated stack of three", r.Sites[0])
		}
	}
	if n.calls != 1 {
		t.Errorf("stacks were named %d times, want once", n.calls)
	}
}

// TestSeriesDecimates records more windows than are kept: what is left lies
// evenly over all of them, however late the site came.
func TestSeriesDecimates(t *testing.T) {
	for _, first := range []uint64{0, 1, 5, 100} {
		var s series
		for w := first; w < 1000; w++ {
			s.record(w, sample{bytes: w, count: 1})
		}
		if n := len(s.samples); n < seriesCap/2 || n > seriesCap {
			t.Errorf("%d samples of windows %d to 999, want %d to %d", n, first, seriesCap/2, seriesCap)
		}
		for i, got := range s.samples {
			if want := s.first + uint64(i)*s.step; got.bytes != want {
				t.Fatalf("sample %d is of window %d, want %d", i, got.bytes, want)
			}
		}
		if s.first >= first+s.step || s.samples[len(s.samples)-1].bytes+s.step < 1000 {
			t.Errorf("samples from %d by %d do not span %d to 999", s.first, s.step, first)
		}
	}
}

// TestThreadsThatCollide has two threads that share a place in the cache.
func TestThreadsThatCollide(t *testing.T) {
	a := newTestAnalyzer(t)
	a.Apply(new(trace).malloc(0x1000, 8, 1).on(5).malloc(0x2000, 8, 2).on(5 + minLastAllocs).
		free(0x1000).on(5).free(0x2000).on(5 + minLastAllocs).events)
	if n := a.processes[0].total.TemporaryCount; n != 2 {
		t.Errorf("%d temporary blocks, want 2", n)
	}
}

// TestDeadSitesHaveNoSeries sees that a site without live blocks costs no
// window memory, and that one that died gives it back.
func TestDeadSitesHaveNoSeries(t *testing.T) {
	a := newTestAnalyzer(t)
	a.Apply(new(trace).malloc(0x1000, 8, 1).free(0x1000).malloc(0x2000, 8, 2).events)
	a.Window(testStart + 10_000)
	if a.sites.at(0).live != nil || a.sites.at(1).live == nil || a.series != 1 {
		t.Fatalf("%d sites have a series, want the one with a live block", a.series)
	}
	a.Apply(new(trace).free(0x2000).events)
	for range 10 * seriesCap {
		a.Window(testStart + 20_000)
	}
	if a.series != 0 || a.sites.at(1).live != nil {
		t.Errorf("%d sites have a series long after their blocks died", a.series)
	}
}

// TestManyThreads has more threads in turns than the table begins with room for.
func TestManyThreads(t *testing.T) {
	const threads = 10_000
	a := newTestAnalyzer(t)
	r := rand.New(rand.NewPCG(5, 6))
	tids := r.Perm(4 * threads)[:threads]
	events := new(trace)
	for _, tid := range tids {
		events.malloc(uint64(tid)*64+64, 8, 1).on(uint32(tid) + 1)
	}
	r.Shuffle(threads, func(i, j int) { tids[i], tids[j] = tids[j], tids[i] })
	for _, tid := range tids {
		events.free(uint64(tid)*64 + 64).on(uint32(tid) + 1)
	}
	a.Apply(events.events)
	if n := a.processes[0].total.TemporaryCount; n != threads {
		t.Errorf("%d temporary blocks of %d threads", n, threads)
	}
}
