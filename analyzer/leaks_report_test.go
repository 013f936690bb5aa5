package analyzer

import (
	"slices"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/tracer/event"
)

// TestReportNamesTheLeakingSite drives an Analyzer by events, as a trace does,
// through 20 windows of a second: one site leaks, one is a cache that is full
// after four, one churns.
func TestReportNamesTheLeakingSite(t *testing.T) {
	const (
		leak, cache, churn = 101, 102, 103
		pid, start         = 77, 5 * second
	)
	a := New(Config{Start: start})
	onTape(t, a)
	defer a.Close()
	a.AddProcess(ProcessInfo{PID: pid, Attached: true})
	next := uint64(0x1000)
	block := func(at uint64, stack event.StackID) event.Event {
		next += 512
		return event.Event{Kind: event.Alloc, Time: at, PID: pid, TID: pid, Addr: next, Size: 400, Stack: stack}
	}
	for w := range uint64(20) {
		var events []event.Event
		for i := range uint64(100) {
			at := start + w*second + i*second/100
			events = append(events, block(at, leak))
			if w < 4 {
				events = append(events, block(at+1, cache))
			}
			e := block(at+2, churn)
			events = append(events, e, event.Event{Kind: event.Free, Time: at + 3, PID: pid, TID: pid, Addr: e.Addr})
		}
		a.Apply(events)
		a.Window(start + (w+1)*second)
	}
	// The churning site comes first in this order; the leaking one is listed anyway.
	r := a.reportAt(start+20*second, ReportOptions{Top: 1, Sort: "temp"}, nil)
	if len(r.Sites) != 2 || r.SitesMore != 1 || r.Sites[0].TemporaryCount == 0 {
		t.Errorf("%d sites listed, %d omitted; want the first and the leaking one of 3", len(r.Sites), r.SitesMore)
	}
	// What is left out is the site of 4 times 100 blocks that stay.
	if want := (report.SiteSum{LiveBytes: 160_000, LiveCount: 400, AllocBytes: 160_000, AllocCount: 400, GrowthBytes: 160_000}); r.SitesMoreSum == nil || *r.SitesMoreSum != want {
		t.Errorf("those left out have %+v, want %+v", r.SitesMoreSum, want)
	}
	cut := a.reportAt(start+20*second, ReportOptions{Sort: "temp"}, nil)
	if cut.SitesMoreSum != nil {
		t.Errorf("of all sites, those left out have %+v", cut.SitesMoreSum)
	}
	cut.Limit(1)
	if want := (report.SiteSum{LiveBytes: 160_000, LiveCount: 400, AllocBytes: 160_000, AllocCount: 400}); len(cut.Sites) != 2 || cut.SitesMore != 1 || *cut.SitesMoreSum != want {
		t.Errorf("limited afterwards, %d are listed and %d left out with %+v; want 2, and 1 with %+v", len(cut.Sites), cut.SitesMore, cut.SitesMoreSum, want)
	}
	if len(r.Leaks) != 1 || r.Leaks[0].Kind != "growing" {
		t.Fatalf("leaks: %+v, want one that is growing", r.Leaks)
	}
	found := slices.IndexFunc(r.Sites, func(s report.Site) bool { return s.ID == r.Leaks[0].Site })
	if found < 0 {
		t.Fatalf("the site of %+v is not in the Report", r.Leaks[0])
	}
	if s, l := r.Sites[found], r.Leaks[0]; s.AllocCount != 2000 || s.FreeCount != 0 || l.Count != 2000 || l.Bytes != 2000*400 {
		t.Errorf("leak %+v at site %+v", l, s)
	}
}
