package analyzer

import (
	"slices"

	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/analyzer/stats"
	"github.com/memtrace/memtrace/tracer/event"
)

// How memory is attributed without a probe on any allocator. A page belongs to the stack that touched it
// first (event.FaultTouch), until a reading of the page states finds it gone (input.Touches) or another fault
// shows that it was gone in between. A site's live bytes are its pages, its allocations the times that one
// became its own.

// touchesOf returns the touched pages of a process that is listed itself, else nil.
func (a *Analyzer) touchesOf(p *process) *touchTable {
	if p.touched == nil && p.group == nil && p.groupEntry == nil && !p.exited {
		p.touched = a.touchTable(p)
	}
	return p.touched
}

// touch applies a Fault that has a stack.
func (a *Analyzer) touch(p *process, e *event.Event) {
	if p.group != nil {
		p.group.touches++
	}
	t := a.touchesOf(p)
	if t == nil || e.Addr >= maxAddress {
		return
	}
	page := e.Addr / a.config.PageSize
	t.touchedBy(e.TID, page)
	old := t.get(page)
	if !p.changesOwner(t, page, old, e) {
		return
	}
	id := a.siteOf(p, e.Stack)
	o := ownerOf(id)
	if e.Flags&event.FaultWrite == 0 {
		o |= touchReadOnly
	}
	a.disown(p, old)
	if t.set(page, o) {
		a.own(p, id, a.since(e.Time))
		a.sites.at(id).faults++
	}
}

// changesOwner reports whether a fault makes a page another's, and counts it where it does not.
func (p *process) changesOwner(t *touchTable, page uint64, old touchOwner, e *event.Event) bool {
	switch {
	case old == 0:
		return true
	case old&touchSwapped != 0:
		t.swapIns++
		t.set(page, old&^touchSwapped)
		return false
	case e.Flags&event.FaultMapped == 0:
		return true // it was gone in between
	case e.Flags&event.FaultWrite == 0:
		return false
	case old&touchInherited != 0, old&touchBefore != 0 && p.child:
		t.copies++ // the process has a page of its own now
		return true
	case old&touchReadOnly != 0:
		return true // until now it was the file's page, or zeros
	}
	t.copies++
	return false
}

// own gives a site a page, which is its own from now on.
func (a *Analyzer) own(p *process, id siteID, now uint64) {
	bytes := a.config.PageSize
	s, t := a.sites.at(id), &p.total
	s.allocCount++
	s.allocBytes += bytes
	s.liveCount++
	s.liveBytes += bytes
	s.sizes.Add(stats.BucketOf(bytes), 1)
	s.peakBytes = max(s.peakBytes, s.liveBytes)
	t.AllocCount++
	t.AllocBytes += bytes
	t.LiveCount++
	t.LiveBytes += bytes
	if t.LiveBytes > t.PeakBytes {
		t.PeakBytes, t.PeakAtNS = t.LiveBytes, now
	}
}

// disown takes a page from its owner.
func (a *Analyzer) disown(p *process, o touchOwner) {
	id, ok := o.site()
	if !ok {
		return
	}
	s := a.sites.at(id)
	s.freeCount++
	s.liveCount--
	s.liveBytes -= a.config.PageSize
	p.total.FreeCount++
	p.total.LiveCount--
	p.total.LiveBytes -= a.config.PageSize
}

// applyTouches takes a Touches.
func (a *Analyzer) applyTouches(in *input.Touches) {
	p := a.byPID[in.PID]
	if p == nil || p.exited {
		return
	}
	if a.basis() != report.FirstTouchBasis {
		a.applySpanTouches(p, in)
		return
	}
	t := a.touchesOf(p)
	if t == nil {
		return
	}
	a.readInto(t, in, func(o touchOwner) { a.disown(p, o) })
	for w := range alongIn(in) {
		a.touchAlong(p, t, w, a.since(in.Now))
	}
	t.begun, t.readOnce = isWhole(in), true
	t.explain, t.before = in.Explained, in.BeforeBytes
}

// isWhole reports whether a reading, or the last part of one, has told of all pages that were there before. Else the
// next reading goes on with that.
func isWhole(in *input.Touches) bool { return len(in.Before) < maxTouchRanges }

// readInto has a table follow a reading of its process's pages, but for those that came along with others. disown is
// told of the owners of pages that are gone.
func (a *Analyzer) readInto(t *touchTable, in *input.Touches, disown func(touchOwner)) {
	var numbers []uint64
	if len(in.Gone)+len(in.Swapped) > 0 {
		numbers = t.numbers()
	}
	for page := range a.ownedIn(t, numbers, in.Gone) {
		disown(t.take(page))
	}
	for page := range a.ownedIn(t, numbers, in.Swapped) {
		t.set(page, t.get(page)|touchSwapped)
	}
	for page := range a.pagesIn(in.Before) {
		if t.get(page) == 0 && !t.set(page, touchBefore) {
			break
		}
	}
}

// touchAlong gives a site the pages that came with one of its own.
func (a *Analyzer) touchAlong(p *process, t *touchTable, w input.TouchedWith, now uint64) {
	if w.Site >= a.sites.used || a.sites.at(siteID(w.Site)).image != p.image {
		return
	}
	id := siteID(w.Site)
	for page := range a.pagesIn([]input.Range{w.Range}) {
		if t.get(page) != 0 {
			continue
		}
		if !t.set(page, ownerOf(id)) {
			return
		}
		a.own(p, id, now)
	}
}

// ascending yields the ranges that begin where the one before ends, or later: all of a reading's do. A recording may
// say anything, and would have the same pages looked at again and again.
func ascending(ranges []input.Range) func(yield func(input.Range) bool) {
	return func(yield func(input.Range) bool) {
		var end uint64
		for _, r := range ranges {
			if r.Start < end || r.End <= r.Start {
				continue
			}
			if end = r.End; !yield(r) {
				return
			}
		}
	}
}

// alongIn yields those that came along, likewise.
func alongIn(in *input.Touches) func(yield func(input.TouchedWith) bool) {
	return func(yield func(input.TouchedWith) bool) {
		var end uint64
		for _, w := range in.Along {
			if w.Start < end || w.End <= w.Start {
				continue
			}
			if end = w.End; !yield(w) {
				return
			}
		}
	}
}

// ownedIn yields the pages in ranges that have an owner. numbers are those of the chunks, ascending: ranges may be of
// any size.
func (a *Analyzer) ownedIn(t *touchTable, numbers []uint64, ranges []input.Range) func(yield func(page uint64) bool) {
	return func(yield func(page uint64) bool) {
		for r := range ascending(ranges) {
			first, last := r.Start/a.config.PageSize, r.End/a.config.PageSize // last is the one after
			i, _ := slices.BinarySearch(numbers, first/touchPages)
			for ; i < len(numbers) && numbers[i]*touchPages < last; i++ {
				for page := max(first, numbers[i]*touchPages); page < min(last, (numbers[i]+1)*touchPages); page++ {
					if t.get(page) != 0 && !yield(page) {
						return
					}
				}
			}
		}
	}
}

// pagesIn yields the pages of ranges.
func (a *Analyzer) pagesIn(ranges []input.Range) func(yield func(page uint64) bool) {
	return func(yield func(page uint64) bool) {
		for r := range ascending(ranges) {
			if r.End > maxAddress {
				continue
			}
			for page := r.Start / a.config.PageSize; page < r.End/a.config.PageSize; page++ {
				if !yield(page) {
					return
				}
			}
		}
	}
}

// inheritTouches has a forked process begin with its parent's pages, as far as there is room.
func (a *Analyzer) inheritTouches(p, from *process) {
	if from.touched == nil || len(from.touched.chunks)*touchPages > maxInherited {
		return
	}
	t := a.touchesOf(p)
	if t == nil {
		return
	}
	t.begun = from.touched.begun
	own := make(map[siteID]siteID)
	for page, o := range from.touched.all {
		id, ok := o.site()
		if !ok {
			t.set(page, o|touchInherited)
			continue
		}
		to, known := own[id]
		if !known {
			to = a.siteOf(p, a.sites.at(id).stack)
			own[id] = to
		}
		if t.set(page, ownerOf(to)|o&^touchSite|touchInherited) { // each that there is no room for counts as lost
			a.holdInherited(p, to)
		}
	}
}

// holdInherited gives a site a page that it had at the fork.
func (a *Analyzer) holdInherited(p *process, id siteID) {
	s := a.sites.at(id)
	s.inherited++
	s.liveCount++
	s.liveBytes += a.config.PageSize
	s.peakBytes = max(s.peakBytes, s.liveBytes)
	p.total.LiveCount++
	p.total.LiveBytes += a.config.PageSize
	p.total.PeakBytes = max(p.total.PeakBytes, p.total.LiveBytes)
}

// endTouches forgets the pages of a process that has ended. What it had touched to its end stays in the sums,
// but for what was its parent's.
func (a *Analyzer) endTouches(p *process) {
	if p.touched == nil {
		return
	}
	for _, o := range p.touched.all {
		if id, ok := o.site(); ok && o&touchInherited != 0 {
			s := a.sites.at(id)
			s.gone++
			s.liveCount--
			s.liveBytes -= a.config.PageSize
			p.total.LiveCount--
			p.total.LiveBytes -= a.config.PageSize
		}
	}
	p.touched.clear()
}

// dropTouches forgets the pages of a process whose memory is another now; the sums are the caller's.
func (p *process) dropTouches() {
	if p.touched != nil {
		p.touched.clear()
		p.touched = nil
	}
}

// fill adds what is known of a process's touched pages to its part of the Report.
func (t *touchTable) fill(out *report.Process) {
	if t == nil {
		return
	}
	f := &report.FirstTouch{SwapIns: t.swapIns, Copies: t.copies, PagesLost: t.lost}
	if t.readOnce {
		f.ExplainedBytes, f.BeforeBytes = t.explain, t.before
		f.UnexplainedBytes = int64(out.Usage.RSS) - int64(t.explain) - int64(t.before)
	}
	out.FirstTouch = f
}

// basis is the Report's.
func (a *Analyzer) basis() string {
	if a.config.Tracer.Attach == report.NoProbes {
		return report.FirstTouchBasis
	}
	return ""
}
