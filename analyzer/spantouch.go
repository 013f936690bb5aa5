package analyzer

import (
	"cmp"
	"slices"

	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/tracer/event"
)

// A spanTouches is the ledger of who first touched which pages of a process while the allocator had no probes, in a
// trace that has some at other times. It begins with the first such span, and goes on: pages that are touched
// while there are probes, or were there before, are nobody's in it (touchBefore). What it knows is no part of the
// live heap, nor of Report.Sites.
type spanTouches struct {
	table *touchTable
	sites map[event.StackID]siteID // of the present program, in Analyzer.spanSites

	other    siteID // stands for those that there is no room for
	hasOther bool
}

// A spanSite is a call stack that has first touched pages in such spans. What a process has touched to its end stays.
type spanSite struct {
	proc    *process
	image   *image
	stack   event.StackID
	other   bool   // stands for those that there was no room for
	touched uint64 // pages that became its own
	held    uint64 // of those, its own at the last reading
}

// spanTouchesOf returns the ledger of a process that is listed itself, else nil.
func (a *Analyzer) spanTouchesOf(p *process) *spanTouches {
	if p.spans == nil && p.group == nil && p.groupEntry == nil && !p.exited {
		p.spans = &spanTouches{table: a.touchTable(p), sites: make(map[event.StackID]siteID)}
	}
	return p.spans
}

// touchInSpan applies a Fault that has a stack, in a trace that has probes at other times.
func (a *Analyzer) touchInSpan(p *process, e *event.Event) {
	if p.group != nil && e.Flags&event.FaultMapped == 0 {
		p.group.touches++
	}
	l := a.spanTouchesOf(p)
	if l == nil || e.Addr >= maxAddress {
		return
	}
	t, page := l.table, e.Addr/a.config.PageSize
	t.touchedBy(e.TID, page)
	old := t.get(page)
	if e.Flags&event.FaultMapped != 0 && (old == 0 || old == touchBefore) {
		t.set(page, touchBefore) // it was there: a child that copies its parent's pages does not grow by that
		return
	}
	if !p.changesOwner(t, page, old, e) {
		return
	}
	id := a.spanSiteOf(p, e.Stack)
	o := ownerOf(id)
	if e.Flags&event.FaultWrite == 0 {
		o |= touchReadOnly
	}
	a.disownInSpan(old)
	if t.set(page, o) {
		a.spanSites[id].touched++
		a.spanSites[id].held++
	}
}

// touchOutsideSpan applies a Fault without a stack: who touched the page is a matter of its block. Such a Fault does
// not tell whether the page of a site is only copied, or had gone and is touched anew. It is taken to have gone: a site
// would else hold for good what is another's.
func (a *Analyzer) touchOutsideSpan(p *process, e *event.Event) {
	if p.spans == nil || e.Addr >= maxAddress {
		return
	}
	t, page := p.spans.table, e.Addr/a.config.PageSize
	old := t.get(page)
	if old&touchSwapped != 0 {
		t.set(page, old&^touchSwapped) // it was swapped in
		return
	}
	a.disownInSpan(old)
	t.set(page, touchBefore)
}

func (a *Analyzer) disownInSpan(o touchOwner) {
	if id, ok := o.site(); ok {
		a.spanSites[id].held--
	}
}

// spanSiteOf returns the number of a stack's spanSite.
func (a *Analyzer) spanSiteOf(p *process, stack event.StackID) siteID {
	l := p.spans
	if id, ok := l.sites[stack]; ok {
		return id
	}
	id := siteID(len(a.spanSites))
	if len(a.spanSites) < maxSites-reservedSites && a.keeps(p.image, siteBytes) {
		a.spanSites = append(a.spanSites, spanSite{proc: p, image: p.image, stack: stack})
		l.sites[stack] = id
		return id
	}
	if !l.hasOther {
		if len(a.spanSites) < maxSites {
			a.spanSites = append(a.spanSites, spanSite{proc: p, image: p.image, other: true})
		} else {
			id--
		}
		l.other, l.hasOther = id, true
	}
	return l.other
}

// applySpanTouches takes a Touches of a trace that has probes at other times.
func (a *Analyzer) applySpanTouches(p *process, in *input.Touches) {
	l := a.spanTouchesOf(p)
	if l == nil {
		return
	}
	t := l.table
	a.readInto(t, in, a.disownInSpan)
	for w := range alongIn(in) {
		a.alongInSpan(t, w)
	}
	t.begun = isWhole(in)
}

// alongInSpan gives pages that came without a fault to whose page they came with.
func (a *Analyzer) alongInSpan(t *touchTable, w input.TouchedWith) {
	with := w.Start/a.config.PageSize + uint64(int64(int32(w.Site)))
	id, ok := t.get(with).site()
	if !ok {
		return // that is gone meanwhile
	}
	for page := range a.pagesIn([]input.Range{w.Range}) {
		if t.get(page) != 0 {
			continue
		}
		if !t.set(page, ownerOf(id)) {
			return
		}
		a.spanSites[id].touched++
		a.spanSites[id].held++
	}
}

// dropSpanTouches ends the ledger of a process that has another program or none now. kept says that its sums stay.
func (a *Analyzer) dropSpanTouches(p *process, kept bool) {
	if p.spans == nil {
		return
	}
	if !kept {
		for _, o := range p.spans.table.all {
			a.disownInSpan(o)
		}
	}
	a.spansLost += p.spans.table.lost
	p.spans.table.clear()
	p.spans = nil
}

// firstTouched is what a Report says of it, without names: the first top sites; nil where there was nothing of it.
func (a *Analyzer) firstTouched(top int) *report.FirstTouched {
	if a.basis() == report.FirstTouchBasis {
		return nil
	}
	out := &report.FirstTouched{Sites: []report.TouchedSite{}, PagesLost: a.spansLost}
	for _, p := range a.processes {
		if p.spans != nil {
			out.PagesLost += p.spans.table.lost
		}
		if p.groupEntry != nil {
			out.ChildTouches += p.groupEntry.touches
		}
	}
	if len(a.spanSites) == 0 && out.PagesLost == 0 && out.ChildTouches == 0 {
		return nil
	}
	for i := range a.spanSites {
		s := &a.spanSites[i]
		row := report.TouchedSite{ID: i, Process: s.proc.id, PID: int(s.proc.info.PID),
			Bytes: s.held * a.config.PageSize, Count: s.held, TouchedBytes: s.touched * a.config.PageSize, TouchedCount: s.touched}
		out.Bytes += row.Bytes
		out.Count += row.Count
		out.TouchedBytes += row.TouchedBytes
		out.TouchedCount += row.TouchedCount
		out.Sites = append(out.Sites, row)
	}
	slices.SortFunc(out.Sites, func(x, y report.TouchedSite) int {
		return cmp.Or(cmp.Compare(y.Bytes, x.Bytes), cmp.Compare(y.TouchedBytes, x.TouchedBytes), cmp.Compare(x.ID, y.ID))
	})
	if top <= 0 {
		top = maxFirstTouched
	}
	if n := len(out.Sites); n > top {
		out.Sites, out.SitesMore = out.Sites[:top], n-top
	}
	return out
}

// maxFirstTouched bounds the list where all are wanted.
const maxFirstTouched = 10_000

// askForFirstTouched asks for the names of those that are listed.
func (a *Analyzer) askForFirstTouched(q *stackQuestions, f *report.FirstTouched) {
	if f == nil {
		return
	}
	for i := range f.Sites {
		if s := &a.spanSites[f.Sites[i].ID]; !s.other {
			q.ask(f.Sites[i].PID, s.image, s.stack)
		}
	}
}

// nameFirstTouched names them.
func (a *Analyzer) nameFirstTouched(f *report.FirstTouched) {
	if f == nil {
		return
	}
	for i := range f.Sites {
		out := &f.Sites[i]
		s := &a.spanSites[out.ID]
		n := a.nameStack(s.image, s.stack, s.other)
		out.Function, out.Stack, out.Truncated, out.FramePointers = n.function, n.frames, n.truncated, n.guessed
		if len(n.frames) > 0 {
			out.Function, out.FunctionFrame = a.functionOf(n.frames)
		}
	}
}
