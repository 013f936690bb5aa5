package analyzer

import (
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/analyzer/stats"
	"github.com/memtrace/memtrace/tracer/event"
)

// apply takes Events.
func (a *Analyzer) apply(events []event.Event) {
	var w warmup
	a.unnamed = a.unnamed[:0]
	if n := len(events); n > 0 {
		a.latest = a.since(events[n-1].Time)
	}
	for len(events) > 0 {
		events = events[a.applySome(events[:min(len(events), warmEvents)], &w):]
	}
}

// applySome applies the first ones of at most warmEvents events and returns how many:
// up to one that changes which process a PID means.
func (a *Analyzer) applySome(events []event.Event, w *warmup) int {
	a.lookAhead(w, events)
	epoch := a.epoch
	for i := range events {
		e, p, hash := &events[i], w.process[i], w.hash[i]
		if p == nil {
			if e.Kind < event.Fault || e.Kind == event.Mremap { // a child's faults and end are seen before it is attached to
				a.unknownProcessEvents++
			}
			continue
		}
		switch e.Kind {
		case event.Alloc:
			a.events.Alloc++
			a.extra.alloc += a.unseen(e)
			a.alloc(p, e, hash, e.Pool())
		case event.Free:
			a.free(p, e, hash)
		case event.Realloc:
			if e.Flags&event.FlagOldOnly == 0 {
				a.events.Realloc++
				a.extra.realloc += a.unseen(e)
			}
			a.realloc(p, e, hash)
		default:
			a.applyRare(p, e)
			if a.epoch != epoch {
				return i + 1
			}
		}
	}
	return len(events)
}

func (a *Analyzer) applyRare(p *process, e *event.Event) {
	switch e.Kind {
	case event.AllocFailed, event.ReallocFailed:
		a.events.Failed++
		a.extra.failed += a.unseen(e)
	case event.Mmap:
		a.mapped(p, e)
	case event.Munmap:
		a.unmapped(p, e)
	case event.Mremap:
		a.remapped(p, e)
	case event.Fault:
		a.fault(p, e)
	case event.Fork:
		a.fork(p, e)
	case event.Exec:
		a.exec(p, e.PID, e.Time)
	case event.Exit:
		a.exit(p, e.PID, a.since(e.Time))
	case event.PoolBegin:
		a.beginPool(p, e)
	case event.PoolChange:
		a.changePool(p, e)
	}
}

// alloc makes the block of an Alloc or a Realloc live, in a pool or, if that is
// 0, in none.
func (a *Analyzer) alloc(p *process, e *event.Event, hash, pool uint64) {
	if e.Addr == 0 {
		return
	}
	id := a.siteOf(p, e.Stack)
	b := block{addr: e.Addr, size: min(e.Size, maxSize), time: a.since(e.Time), site: id, interval: a.intervals.number(e.Interval())}
	old, displaced, err := p.heap.put(b, hash)
	if err != nil {
		a.untracked++
		return
	}
	if displaced { // its free was not seen
		if !p.freesUnseen() {
			a.events.Overwritten++
			p.replaced.note(b.addr, b.time)
		}
		a.close(p, old, b.time)
		a.tellEnded(p, old, ByOverwrite, b.time)
	}
	a.threads.allocated(e.TID, b.addr, b.time)
	if pool != 0 {
		a.enterPool(p, b, e.PID, pool)
	}

	s := a.sites.at(id)
	s.allocCount++
	s.allocBytes += b.size
	s.liveCount++
	s.liveBytes += b.size
	s.sizes.Add(stats.BucketOf(b.size), 1)

	t := &p.total
	t.AllocCount++
	t.AllocBytes += b.size
	t.LiveCount++
	t.LiveBytes += b.size
	if b.interval != 0 {
		a.extendAlloc(p, s, b)
	}
	if !p.freesUnseen() { // else much of what it seems to hold may be gone
		s.peakBytes = max(s.peakBytes, s.held())
		if held := p.held(); held > t.PeakBytes {
			t.PeakBytes, t.PeakAtNS = held, b.time
		}
	}
	if a.config.Observer != nil {
		a.tellBorn(p, b, e)
	}
}

// free applies a Free. free(NULL) is nothing.
func (a *Analyzer) free(p *process, e *event.Event, hash uint64) {
	if e.Addr == 0 {
		return
	}
	b, ok := p.heap.remove(e.Addr, hash)
	if !ok {
		a.freeUnknown(p, e, hash)
		return
	}
	a.events.Free++
	if b.interval != 0 && !a.config.Counted {
		x := a.intervals.excess(b)
		a.extra.free += x.count
	}
	a.freed(p, b, e)
}

// freeUnknown applies the Free of a block that is not known.
func (a *Analyzer) freeUnknown(p *process, e *event.Event, hash uint64) {
	if e.Flags&event.FlagNested != 0 {
		return // the release's own
	}
	if e.Interval() == 0 {
		a.events.UnmatchedFree++
		p.strayFree(e, e.Addr, hash)
	} else if !a.config.Counted {
		return // of a block that is not in the sample
	}
	a.events.Free++
}

// freed accounts for a block that a thread has freed.
func (a *Analyzer) freed(p *process, b block, e *event.Event) {
	temporary := !p.freesUnseen() && a.temporary(b, e)
	if temporary {
		s := a.sites.at(b.site)
		s.tempCount++
		p.total.TemporaryCount++
		if b.interval != 0 {
			x := a.intervals.excess(b)
			s.extra().temp.add(x)
			p.extra().temp.add(x)
		}
	}
	if a.config.Sample != nil && e.Flags&event.FlagReleased == 0 {
		a.config.Sample.Release(b.addr)
	}
	a.close(p, b, a.since(e.Time))
	if a.config.Observer != nil {
		a.tellFreed(p, b, e, temporary)
	}
}

// close accounts for the end of a block that is no longer in the heap.
func (a *Analyzer) close(p *process, b block, now uint64) {
	s := a.sites.at(b.site)
	s.freeCount++
	s.liveCount--
	s.liveBytes -= b.size
	if !p.freesUnseen() {
		s.lifetimes.Add(stats.DurationBucket(now-min(now, b.time)), 1)
	}
	if p.pools != nil {
		p.pools.leave(b, a.intervals.excess(b))
	}
	if p.faults.count != 0 {
		s.faults += p.faults.take(b.addr, b.size)
	}
	t := &p.total
	t.FreeCount++
	t.LiveCount--
	t.LiveBytes -= b.size
	if b.interval != 0 {
		a.extendFree(p, s, b)
	}
}

// realloc ends the old block, then makes the new one live: in this order, as
// both may have one address. The new one is in the pool of the old one.
func (a *Analyzer) realloc(p *process, e *event.Event, hash uint64) {
	var pool uint64
	if e.Old != 0 {
		pool = p.pools.poolOf(e.Old)
		a.reallocOld(p, e)
		if pool != 0 && p.pools.poolOf(e.Old) != 0 {
			pool = 0 // it was another block's
		}
	}
	a.alloc(p, e, hash, pool)
}

// reallocOld ends the block given to realloc. The block that is live at Old
// now is another one where it is younger than the call: see overwrites.
func (a *Analyzer) reallocOld(p *process, e *event.Event) {
	began := a.since(e.Began)
	if e.Began == 0 {
		began = a.since(e.Time)
	}
	hash := p.heap.hash(e.Old)
	if b, ok := p.heap.get(e.Old, hash); ok && b.time <= began {
		p.heap.remove(e.Old, hash)
		a.freed(p, b, e)
		return
	}
	if p.freesUnseen() {
		return // another thread may have been given the address meanwhile
	}
	if p.replaced.explain(e.Old, began) {
		a.events.Overwritten--
		return
	}
	if e.Interval() == 0 && !a.mayBeLeftOut() {
		a.events.UnmatchedFree++
		p.strayFree(e, e.Old, hash)
	}
}

// fault counts a page fault and has it wait for the block around its address.
func (a *Analyzer) fault(p *process, e *event.Event) {
	if e.Flags&event.PrevFaultMajor != 0 && a.events.FaultMinor > 0 {
		a.events.FaultMinor--
		a.events.FaultMajor++
	}
	if e.Flags&event.FaultTouch != 0 {
		if a.basis() == report.FirstTouchBasis {
			a.touch(p, e)
		} else {
			a.touchInSpan(p, e)
		}
		if e.Flags&event.FaultKernel != 0 {
			return
		}
	}
	if e.Flags&event.FaultMajor != 0 {
		a.events.FaultMajor++
	} else {
		a.events.FaultMinor++
	}
	if e.Flags&event.FaultTouch == 0 {
		a.touchOutsideSpan(p, e)
		a.events.FaultUnattributed += uint64(p.faults.add(e.Addr))
	}
}
