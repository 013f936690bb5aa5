package analyzer

import (
	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/tracer/event"
)

// carry takes a Carried.
func (a *Analyzer) carry(v input.Carried) {
	p := a.byPID[v.PID]
	if p == nil || p.exited || p.info.PID != v.PID {
		return
	}
	p.execs, p.child, p.copies, p.partial = v.Execs, v.Child, v.Copies, v.Partial
	if v.ForkedAt != 0 {
		p.forkedAt = a.since(v.ForkedAt)
	}
	if v.FreesSeenAt != 0 {
		p.seesFrees(a.since(v.FreesSeenAt))
	}
	p.walk.walks = v.FreeWalks
	a.inherited += v.Copies
}

// hold takes a Held: its blocks and regions live, and were never seen to come.
func (a *Analyzer) hold(events []event.Event) {
	for i := range events {
		e := &events[i]
		p := a.byPID[e.PID]
		if p == nil || p.exited {
			continue
		}
		switch e.Kind {
		case event.Alloc:
			a.holdBlock(p, e)
		case event.Mmap:
			a.holdRegion(p, e)
		case event.PoolBegin:
			a.beginPool(p, e)
		case event.Fork:
			if e.Flags&event.FlagSharedVM != 0 {
				a.fork(p, e)
			}
		}
	}
}

func (a *Analyzer) holdBlock(p *process, e *event.Event) {
	if e.Addr == 0 {
		return
	}
	var id siteID
	if e.Flags&event.FlagOldOnly != 0 && p.group == nil {
		id = a.otherSite(p)
	} else {
		id = a.siteOf(p, e.Stack)
	}
	b := block{addr: e.Addr, size: min(e.Size, maxSize), time: a.since(e.Time), site: id, interval: a.intervals.number(e.Interval())}
	old, displaced, err := p.heap.put(b, p.heap.hash(b.addr))
	if err != nil {
		a.untracked++
		return
	}
	if displaced { // no writer gives two blocks at one place
		a.close(p, old, b.time)
		a.tellEnded(p, old, ByOverwrite, b.time)
	}
	if pool := e.Pool(); pool != 0 {
		a.enterPool(p, b, e.PID, pool)
	}
	s := a.sites.at(id)
	s.inherited++
	s.liveCount++
	s.liveBytes += b.size
	p.total.LiveCount++
	p.total.LiveBytes += b.size
	a.extendInherited(p, s, b)
	s.peakBytes = max(s.peakBytes, s.held())
	if held := p.held(); held > p.total.PeakBytes {
		p.total.PeakBytes, p.total.PeakAtNS = held, a.from
	}
	if a.config.Observer != nil {
		l := a.life(p, b)
		l.Cause = ByCheckpoint
		a.config.Observer.Born(l)
	}
}

func (a *Analyzer) holdRegion(p *process, e *event.Event) {
	t := a.regionsOf(p)
	r := region{start: e.Addr, end: e.Addr + e.Size, time: a.since(e.Time)}
	if t == nil || r.end <= r.start || r.end > maxAddress {
		return
	}
	for flag, own := range heldRegions {
		if e.Flags&flag != 0 {
			r.flags |= own
		}
	}
	t.unmap(r.start, r.end, maxTime)
	r.site = a.regionSiteOf(p, t, e.Stack)
	if !t.add(r) {
		t.sites.untracked++
		return
	}
	s := &t.sites.all[r.site]
	s.inherited += r.bytes()
	s.hold(r)
}

// heldRegions are the flags of regions that a Held tells.
var heldRegions = map[event.Flags]regionFlags{
	input.HeldSysV: regionSysV, input.HeldUnsized: regionUnsized, input.HeldCopy: regionInherited,
}
