package analyzer

import (
	"fmt"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/tracer/event"
)

// jitNames is a symbolizer of code that a JIT compiler has moved: all addresses of a
// hundred are of one function.
type jitNames struct{}

func (jitNames) Frames(_ int, addrs []uint64, _ uint64) (out []*report.Frame) {
	for _, addr := range addrs {
		out = append(out, &report.Frame{Function: fmt.Sprintf("jit%d", addr/100), Module: "[anon]", Offset: addr})
	}
	return out
}

// mergeTrace makes four sites, the first, third and fourth of which print alike.
func mergeTrace(a *Analyzer) {
	for id, frames := range map[event.StackID][]uint64{1: {101, 201}, 2: {301, 201}, 3: {102, 202}, 4: {103, 203}} {
		a.AddStack(event.Stack{ID: id, PID: testPID, Frames: frames})
	}
	a.Apply(new(trace).malloc(0x1000, 100, 1).malloc(0x2000, 150, 2).malloc(0x3000, 30, 3).malloc(0x4000, 40, 4).
		malloc(0x5000, 5, 4).free(0x5000).events)
}

func TestSitesThatPrintAlikeAreOneRow(t *testing.T) {
	a := newTestAnalyzer(t)
	mergeTrace(a)
	r := a.reportAt(testStart+20_000, ReportOptions{}, jitNames{})
	if len(r.Sites) != 2 || r.SitesMore != 0 {
		t.Fatalf("got %d rows and %d more: %+v", len(r.Sites), r.SitesMore, r.Sites)
	}
	s := r.Sites[0] // 170 bytes, before the 150 that led
	if s.ID != 0 || fmt.Sprint(s.MergedIDs) != "[2 3]" || s.Function != "jit1" || s.LiveBytes != 170 || s.LiveCount != 3 ||
		s.AllocBytes != 175 || s.AllocCount != 4 || s.FreeCount != 1 || s.PeakLiveBytes != 100+30+45 || s.OldestNS != 19_000 || s.GrowthBytes != 170 {
		t.Errorf("the row is %+v", s)
	}
	if fmt.Sprint(s.SizeHistogram) != "[[5 1] [32 1] [40 1] [112 1]]" {
		t.Errorf("its sizes are %v", s.SizeHistogram)
	}
	if o := r.Sites[1]; o.ID != 1 || o.MergedIDs != nil || o.LiveBytes != 150 {
		t.Errorf("the other row is %+v", o)
	}
}

// With --top they are found, too, where they are among the many that are looked at.
func TestMergedRowsCountForTop(t *testing.T) {
	a := newTestAnalyzer(t)
	mergeTrace(a)
	r := a.reportAt(testStart+20_000, ReportOptions{Top: 1, Final: true}, jitNames{})
	if len(r.Sites) != 1 || r.SitesMore != 1 || r.Sites[0].LiveBytes != 170 {
		t.Errorf("got %d rows and %d more: %+v", len(r.Sites), r.SitesMore, r.Sites)
	}
}

func TestOtherProcessesAndLostStacksStayApart(t *testing.T) {
	f := &report.Frame{Function: "f"}
	r := &report.Report{Sites: []report.Site{
		{ID: 1, Process: 1, Function: "f", Stack: []*report.Frame{f}}, {ID: 2, Process: 2, Function: "f", Stack: []*report.Frame{f}},
		{ID: 3, Process: 1, Function: "f", Stack: []*report.Frame{f}, Truncated: true},
		{ID: 4, Process: 1, Function: "[stack lost]"}, {ID: 5, Process: 1, Function: "[stack lost]"},
		{ID: 6, Process: 1, Function: "f", Stack: []*report.Frame{f, f}},
		{ID: 7, Process: 1, Function: "f", Stack: []*report.Frame{{Function: "f", Line: 2}}},
		{ID: 8, Process: 1, Function: "f", Stack: []*report.Frame{{Function: "f", Inlined: true}}},
		{ID: 9, Process: 1, Function: "0x12", Stack: []*report.Frame{{Function: "0x12", Module: "m", Offset: 12}}},
		{ID: 10, Process: 1, Function: "0x12", Stack: []*report.Frame{{Function: "0x12", Module: "m", Offset: 13}}},
	}}
	if mergeSites(r) || len(r.Sites) != 10 {
		t.Errorf("got %+v", r.Sites)
	}
}

// Leaks refer to the row; what differs in its figures alone is one verdict, with the
// fingerprint of each part.
func TestLeaksOfMergedSites(t *testing.T) {
	stack := func() []*report.Frame { return []*report.Frame{{Function: "f"}, {Function: "main"}} }
	make := func() *report.Report {
		return &report.Report{
			Sites: []report.Site{{ID: 5, Function: "f", Stack: stack()}, {ID: 3, Function: "f", Stack: stack()}},
			Leaks: []report.Leak{
				{Site: 3, Kind: "definite", Why: "w", Bytes: 10, Count: 1, Confidence: 1, OldestNS: 9, NewestNS: 7},
				{Site: 5, Kind: "definite", Why: "w", Bytes: 20, Count: 2, Confidence: 0.5, OldestNS: 11, NewestNS: 8},
				{Site: 5, Kind: "definite", Why: "lost", Bytes: 1, Count: 1, Doubtful: true},
				{Site: 3, Kind: "growing", Why: "w", Growing: true, Bytes: 10}, {Site: 5, Kind: "growing", Why: "w", Growing: true, Bytes: 20},
			},
		}
	}
	apart, r := make(), make()
	apart.Identify()
	if !mergeSites(r) {
		t.Fatal("nothing was merged")
	}
	r.Identify()
	if len(r.Sites) != 1 || r.Sites[0].ID != 3 || fmt.Sprint(r.Sites[0].MergedIDs) != "[5]" || len(r.Leaks) != 4 {
		t.Fatalf("got %+v", r)
	}
	if l := r.Leaks[0]; l.Site != 3 || l.Bytes != 30 || l.Count != 3 || l.Confidence != 0.5 || l.OldestNS != 11 || l.NewestNS != 7 {
		t.Errorf("the verdict is %+v", l)
	}
	for i, j := range map[int]int{0: 1, 1: 2, 2: 3, 3: 4} {
		if r.Leaks[i].Site != 3 || r.Leaks[i].Fingerprint != apart.Leaks[j].Fingerprint {
			t.Errorf("leak %d is %+v, of %+v", i, r.Leaks[i], apart.Leaks[j])
		}
	}
}

// Groups add up to the sites, whatever --top leaves out.
func TestGroupsAddUp(t *testing.T) {
	for _, by := range report.Groupings() {
		a := newTestAnalyzer(t)
		mergeTrace(a)
		all := a.reportAt(testStart+20_000, ReportOptions{}, jitNames{})
		r := a.reportAt(testStart+20_000, ReportOptions{By: by, Top: 1}, jitNames{})
		if by == report.BySite {
			if r.By != "" || r.Groups != nil || len(r.Sites) != 1 {
				t.Errorf("by site: %+v", r)
			}
			continue
		}
		whole := a.reportAt(testStart+20_000, ReportOptions{By: by}, jitNames{})
		if r.By != by || len(r.Groups) != 1 || len(r.Sites) != 1 || len(r.Groups)+r.GroupsMore != len(whole.Groups) || whole.GroupsMore != 0 {
			t.Errorf("by %s: %d and %d more groups, %d sites, of %d groups", by, len(r.Groups), r.GroupsMore, len(r.Sites), len(whole.Groups))
		}
		var got, want report.Site
		sites := 0
		for _, g := range whole.Groups {
			got.LiveBytes, got.LiveCount, got.AllocBytes = got.LiveBytes+g.LiveBytes, got.LiveCount+g.LiveCount, got.AllocBytes+g.AllocBytes
			got.AllocCount, got.FreeCount, got.TemporaryCount = got.AllocCount+g.AllocCount, got.FreeCount+g.FreeCount, got.TemporaryCount+g.TemporaryCount
			sites += g.Sites
		}
		for _, s := range all.Sites {
			want.LiveBytes, want.LiveCount, want.AllocBytes = want.LiveBytes+s.LiveBytes, want.LiveCount+s.LiveCount, want.AllocBytes+s.AllocBytes
			want.AllocCount, want.FreeCount, want.TemporaryCount = want.AllocCount+s.AllocCount, want.FreeCount+s.FreeCount, want.TemporaryCount+s.TemporaryCount
		}
		if by == "size" {
			want = report.Site{AllocCount: want.AllocCount}
		} else if sites != 4 {
			t.Errorf("by %s: groups of %d sites, want 4", by, sites)
		}
		if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
			t.Errorf("by %s: groups add up to %+v, sites to %+v", by, got, want)
		}
	}
}

// A Report that is not the last does not wait for the names of all sites that its groups
// are made of: those without are a group of their own meanwhile, so that groups add up in each.
func TestGroupsBeforeAllSitesHaveNames(t *testing.T) {
	a, c := newTestAnalyzer(t), &code{}
	const sites = 3 * groupedNames
	for i := range sites {
		c.site(a, uint64(i+1), fmt.Sprintf("f%d", i), "main")
	}
	for i, groups := range []int{groupedNames + 1, 2*groupedNames + 1, sites} {
		n := counted{symbolizer: c}
		r := a.reportAt(testStart+10_000, ReportOptions{By: "function", Top: 5}, &n)
		without := uint64(sites - (i+1)*groupedNames) // the smallest ones, of 1 byte, 2 bytes, …
		first := r.Groups[0]
		if n.stacks != groupedNames || len(r.Groups) != 5 || 5+r.GroupsMore != groups || len(r.Sites) != 5 ||
			without > 0 && (first.Key != report.NotNamedYet || first.LiveBytes != without*(without+1)/2 || first.Sites != int(without)) {
			t.Errorf("Report %d asked for %d stacks, has %d groups and %d more, of %d sites, first %+v", i+1, n.stacks, len(r.Groups), r.GroupsMore, len(r.Sites), first)
		}
	}
	n := counted{symbolizer: c}
	if a.reportAt(testStart+10_000, ReportOptions{By: "size", Top: 5}, &n); n.stacks != 0 {
		t.Errorf("by size %d more stacks were named", n.stacks)
	}
}
