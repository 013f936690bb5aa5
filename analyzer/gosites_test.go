package analyzer

import (
	"slices"
	"testing"

	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/tracer/event"
)

func goStack(number uint32, functions ...string) input.GoStack {
	s := input.GoStack{Number: number}
	for _, f := range functions {
		s.Frames = append(s.Frames, &input.Frame{Function: f, Module: "/bin/prog"})
	}
	return s
}

// goReading is a GoHeap of a process with some live bytes by stack, in blocks of 8 bytes. Each was sampled twice as often.
func goReading(rate uint64, live map[uint32]uint64) input.GoHeap {
	v := input.GoHeap{PID: testPID, Now: testStart + 10, Version: "go1.26", FoundBy: "symbols", Rate: rate}
	for stack := range uint32(10) {
		if bytes, ok := live[stack]; ok {
			f := input.GoFigure{Samples: 2, Count: bytes / 8, Bytes: bytes, CountSE: 3, BytesSE: 30}
			all := f
			all.Count, all.Bytes = 2*f.Count, 2*f.Bytes
			v.Sites = append(v.Sites, input.GoSite{Stack: stack, Live: f, Alloc: all})
		}
	}
	return v
}

func goSitesOf(r *report.Report) map[string]report.Site {
	out := make(map[string]report.Site)
	for _, s := range r.Sites {
		if s.Basis == report.GoProfile {
			out[s.Function] = s
		}
	}
	return out
}

// Sites of a Go program's own profile stand beside those of traced blocks, are in no sum of them, and grow by themselves.
func TestGoSites(t *testing.T) {
	a := newTestAnalyzer(t)
	a.Apply([]event.Event{{Kind: event.Alloc, PID: testPID, TID: testPID, Addr: 0x1000, Size: 100, Time: testStart + 1}})
	a.give(input.GoStacks{PID: testPID, Stacks: []input.GoStack{goStack(1, "main.f", "main.main"), goStack(2, "runtime.mallocgc", "main.g")}})
	a.give(goReading(512<<10, map[uint32]uint64{1: 8000, 2: 800}))
	a.reportAt(testStart+20, ReportOptions{}, nil)
	a.give(input.GoStacks{PID: testPID, Stacks: []input.GoStack{goStack(3, "main.late")}})
	a.give(goReading(512<<10, map[uint32]uint64{1: 9600, 3: 80, 9: 16}))
	r := a.reportAt(testStart+30, ReportOptions{}, nil)

	p := &r.Processes[0]
	if g := p.GoHeap; g.LiveBytes != 9696 || g.AllocBytes != 2*9696 || g.GrowthBytes != 9696-8800 || g.Estimate.LiveBytesSE != 52 || g.Rate != 512<<10 {
		t.Errorf("%+v %+v", g, g.Estimate)
	}
	if p.Heap.LiveBytes != 100 || p.HeapBytes() != 9796 {
		t.Errorf("traced %d, in all %d", p.Heap.LiveBytes, p.HeapBytes())
	}
	sites := goSitesOf(r)
	for name, want := range map[string][2]int64{"main.f": {9600, 1600}, "main.late": {80, 80}, "[all other sites]": {16, 16}} {
		if s := sites[name]; int64(s.LiveBytes) != want[0] || s.GrowthBytes != want[1] || s.Language != "go" || s.Estimate.LiveSamples != 2 {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if _, ok := sites["main.g"]; ok || len(r.Sites) != 4 || r.Sites[0].Function != "main.f" {
		t.Errorf("%d sites, the first of %s", len(r.Sites), r.Sites[0].Function)
	}
	if ids := siteIDs(r); len(slices.Compact(ids)) != len(r.Sites) {
		t.Errorf("IDs %v", ids)
	}
}

func siteIDs(r *report.Report) (ids []int) {
	for _, s := range r.Sites {
		ids = append(ids, s.ID)
	}
	slices.Sort(ids)
	return ids
}

// Every block was sampled: the figures are exact, and marked so.
func TestGoSitesOfEveryBlock(t *testing.T) {
	a := newTestAnalyzer(t)
	a.give(goReading(1, map[uint32]uint64{1: 80}))
	r := a.reportAt(testStart+20, ReportOptions{}, nil)
	if g := r.Processes[0].GoHeap; g.Estimate != nil || g.LiveBytes != 80 || r.Sites[0].Estimate != nil {
		t.Errorf("%+v", g)
	}
}

// A profile that could not be read says why, and its figures are gone. So are they after an exec.
func TestGoHeapProblem(t *testing.T) {
	a := newTestAnalyzer(t)
	a.give(goReading(1, map[uint32]uint64{1: 80}))
	a.give(input.GoHeap{PID: testPID, Now: testStart + 11, Problem: "it is off"})
	r := a.reportAt(testStart+20, ReportOptions{}, nil)
	if g := r.Processes[0].GoHeap; g.Problem != "it is off" || g.LiveBytes != 0 || len(r.Sites) != 0 {
		t.Errorf("%+v, %d sites", g, len(r.Sites))
	}
	a.Apply([]event.Event{{Kind: event.Exec, PID: testPID, Child: testPID, TID: testPID, Time: testStart + 25}})
	if r = a.reportAt(testStart+30, ReportOptions{}, nil); r.Processes[0].GoHeap != nil {
		t.Errorf("after an exec: %+v", r.Processes[0].GoHeap)
	}
}

// --top and groups take sites of all kinds together.
func TestGoSitesAreLimitedAndGrouped(t *testing.T) {
	a := newTestAnalyzer(t)
	a.give(input.GoStacks{PID: testPID, Stacks: []input.GoStack{goStack(1, "main.f", "main.a"), goStack(2, "main.f", "main.b"), goStack(3, "main.g")}})
	a.give(goReading(512, map[uint32]uint64{1: 800, 2: 1600, 3: 80}))
	r := a.reportAt(testStart+20, ReportOptions{Top: 2}, nil)
	if len(r.Sites) != 2 || r.SitesMore != 1 || r.Sites[0].LiveBytes != 1600 {
		t.Errorf("%d sites, %d left out", len(r.Sites), r.SitesMore)
	}
	r = a.reportAt(testStart+30, ReportOptions{By: "function"}, nil)
	if len(r.Groups) != 2 || r.Groups[0].Key != "main.f" || r.Groups[0].LiveBytes != 2400 {
		t.Errorf("%+v", r.Groups)
	}
}
