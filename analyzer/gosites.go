package analyzer

import (
	"math"

	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/report"
)

// Sites of a Go program's own memory profile stand in Reports beside those of traced blocks. They have no blocks, so they are in
// no sum of these, and no verdict is on them.

// goHeap is what is known of a Go program's own memory profile.
type goHeap struct {
	last   input.GoHeap
	sites  map[uint32]*goSite // by GoStack.Number
	all    []*goSite          // the same, in the order of their IDs: sums of errors depend on the order
	first  uint64             // live bytes at the first reading
	read   bool
	beyond bool // stacks were left out: there was no room
}

type goSite struct {
	id       int
	frames   []*report.Frame // never nil
	now      input.GoSite    // of the last reading; zero: it was not in that
	peak     uint64          // of live bytes, at readings
	reported uint64          // live bytes at the last Instant
	grown    int64           // until then, since the one before
}

// profiled returns a process that has a memory profile, nil where it is not known or has no entry of its own.
func (a *Analyzer) profiled(pid uint32) *process {
	p := a.byPID[pid]
	if p == nil || p.exited || p.group != nil || p.info.PID != pid {
		return nil
	}
	if p.goHeap == nil {
		p.goHeap = &goHeap{sites: make(map[uint32]*goSite)}
	}
	return p
}

// takeGoStacks takes GoStacks.
func (a *Analyzer) takeGoStacks(v input.GoStacks) {
	if p := a.profiled(v.PID); p != nil {
		for _, s := range v.Stacks {
			a.addGoStack(p, s)
		}
	}
}

// takeGoHeap takes a GoHeap.
func (a *Analyzer) takeGoHeap(v input.GoHeap) {
	p := a.profiled(v.PID)
	if p == nil {
		return
	}
	g := p.goHeap
	for _, s := range g.all {
		s.now = input.GoSite{}
	}
	for _, s := range v.Sites {
		own := a.goSite(p, s.Stack)
		own.now = sumOfGoSites(own.now, s)
		own.peak = max(own.peak, own.now.Live.Bytes)
		if !g.read { // what was there before is no growth
			own.reported = own.now.Live.Bytes
		}
	}
	g.last = v
	if !g.read && v.Problem == "" {
		g.read, g.first = true, g.sum().Live.Bytes
	}
	g.last.Sites = nil
}

func (a *Analyzer) addGoStack(p *process, s input.GoStack) {
	g := p.goHeap
	if _, known := g.sites[s.Number]; known || s.Number == 0 {
		return
	}
	if !a.keeps(p.image, siteBytes+stackBytes+frameBytes*uint64(len(s.Frames))) {
		g.beyond = true
		return
	}
	frames := make([]*report.Frame, 0, len(s.Frames))
	for _, f := range s.Frames {
		if f != nil {
			frames = append(frames, (*report.Frame)(f)) // the same fields
		}
	}
	a.newGoSite(g, s.Number, frames)
}

// goSite returns the site of a stack, that of all others where it is not known: number 0.
func (a *Analyzer) goSite(p *process, stack uint32) *goSite {
	g := p.goHeap
	if s := g.sites[stack]; s != nil {
		return s
	}
	if g.sites[0] == nil {
		a.newGoSite(g, 0, []*report.Frame{})
	}
	return g.sites[0]
}

// newGoSite gives a site an ID that no site of blocks has.
func (a *Analyzer) newGoSite(g *goHeap, stack uint32, frames []*report.Frame) {
	a.goSites++
	s := &goSite{id: maxSites + a.goSites, frames: frames}
	g.sites[stack] = s
	g.all = append(g.all, s)
}

// errorOfSum is the standard error of a sum of figures that don't depend on each other.
func errorOfSum(x, y uint64) uint64 { return uint64(math.Round(math.Hypot(float64(x), float64(y)))) }

func sumOfGoSites(s, o input.GoSite) input.GoSite {
	return input.GoSite{Stack: o.Stack, Live: sumOfGoFigures(s.Live, o.Live), Alloc: sumOfGoFigures(s.Alloc, o.Alloc)}
}

// sumOfGoFigures adds up figures of different samples, which don't depend on each other.
func sumOfGoFigures(s, o input.GoFigure) input.GoFigure {
	return input.GoFigure{
		Samples: s.Samples + o.Samples, Count: s.Count + o.Count, Bytes: s.Bytes + o.Bytes,
		CountSE: errorOfSum(s.CountSE, o.CountSE), BytesSE: errorOfSum(s.BytesSE, o.BytesSE),
	}
}

func (g *goHeap) sum() (out input.GoSite) {
	for _, s := range g.all {
		out = sumOfGoSites(out, s.now)
	}
	return out
}

// mark takes an Instant.
func (g *goHeap) mark() {
	if g == nil {
		return
	}
	for _, s := range g.all {
		s.grown, s.reported = int64(s.now.Live.Bytes)-int64(s.reported), s.now.Live.Bytes
	}
}

// estimate is nil where every block was sampled.
func (g *goHeap) estimate(live, alloc input.GoFigure) *report.Estimate {
	if g.last.Rate <= 1 {
		return nil
	}
	return &report.Estimate{
		Samples: alloc.Samples, LiveSamples: live.Samples, LiveBytesSE: live.BytesSE, LiveCountSE: live.CountSE,
		AllocBytesSE: alloc.BytesSE, AllocCountSE: alloc.CountSE, FreeCountSE: errorOfSum(alloc.CountSE, live.CountSE),
	}
}

// report is what a process's entry says of it.
func (g *goHeap) report(a *Analyzer) *report.GoHeap {
	if g == nil {
		return nil
	}
	out := &report.GoHeap{
		Version: g.last.Version, FoundBy: g.last.FoundBy, Rate: g.last.Rate, ReadNS: a.since(g.last.Now),
		BeforeGC: g.last.BeforeGC, Unsettled: g.last.Unsettled, Cut: g.last.Cut || g.beyond, Problem: g.last.Problem,
	}
	if out.Problem != "" {
		return out
	}
	s := g.sum()
	out.LiveBytes, out.LiveCount, out.AllocBytes, out.AllocCount = s.Live.Bytes, s.Live.Count, s.Alloc.Bytes, s.Alloc.Count
	out.FreeCount = s.Alloc.Count - min(s.Live.Count, s.Alloc.Count)
	out.GrowthBytes = int64(s.Live.Bytes) - int64(g.first)
	out.Estimate = g.estimate(s.Live, s.Alloc)
	return out
}

// addGoSites lists the sites of all Go programs, and reports whether there are any.
func (a *Analyzer) addGoSites(r *report.Report) bool {
	before := len(r.Sites)
	for _, p := range a.processes {
		if p.goHeap == nil || p.goHeap.last.Problem != "" {
			continue
		}
		for _, s := range p.goHeap.all {
			if s.now.Alloc.Count != 0 {
				r.Sites = append(r.Sites, a.reportGoSite(p, s))
			}
		}
	}
	return len(r.Sites) > before
}

func (a *Analyzer) reportGoSite(p *process, s *goSite) report.Site {
	live, alloc := s.now.Live, s.now.Alloc
	out := report.Site{
		ID: s.id, Process: p.id, PID: int(p.info.PID), Basis: report.GoProfile, Language: "go", Function: "[all other sites]", Stack: s.frames,
		LiveBytes: live.Bytes, LiveCount: live.Count, AllocBytes: alloc.Bytes, AllocCount: alloc.Count,
		FreeCount: alloc.Count - min(live.Count, alloc.Count), PeakLiveBytes: s.peak, GrowthBytes: s.grown,
		SizeHistogram: [][2]uint64{}, Estimate: p.goHeap.estimate(live, alloc),
	}
	if len(s.frames) > 0 {
		out.Function, out.FunctionFrame = a.functionOf(s.frames)
	}
	return out
}
