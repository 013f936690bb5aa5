package analyzer

import (
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/tracer/event"
)

// fork makes a child that shares its parent's memory another name of its
// parent, until it execs or exits. A child with memory of its own is followed
// only if Config says so, or a Started makes it known.
func (a *Analyzer) fork(parent *process, e *event.Event) {
	if e.Child == e.PID {
		return
	}
	if e.Flags&event.FlagSharedVM == 0 {
		if a.config.FollowForks {
			a.forkWithCopies(parent, e)
		}
		return
	}
	if c := a.byPID[e.Child]; c != nil && !c.exited && c.info.PID == e.Child {
		if c.total.AllocCount != 0 || c.total.LiveCount != 0 {
			return
		}
		// It was added before its fork was read.
		a.waiting[e.Child] = c.info
		a.forget(c)
		parent.addLosses(c.damage)
		parent.image.takeStacks(c.image)
	}
	parent.image.takeStacks(a.earlyImages[e.Child]) // of the memory that it shares
	a.byPID[e.Child] = parent
	if _, known := a.waiting[e.Child]; !known && a.config.FollowForks {
		info := parent.info
		info.PID = e.Child
		a.waiting[e.Child] = info
	}
	a.processesChanged()
}

// forget removes a process that nothing has been allocated in.
func (a *Analyzer) forget(p *process) {
	if p.group != nil {
		p.group.leave(a, p, ByExit, a.latest)
		p.group.count--
		return
	}
	p.heap.close()
	a.dropRegions(p)
	p.dropTouches()
	a.dropSpanTouches(p, false)
	for i, q := range a.processes {
		if q == p {
			a.processes = append(a.processes[:i], a.processes[i+1:]...)
			return
		}
	}
}

// exec drops all blocks of a process: they are gone with its image. A child that
// shared its parent's memory no longer does, and nothing is dropped.
func (a *Analyzer) exec(p *process, pid uint32, at uint64) {
	if p.info.PID != pid {
		a.splitMemory(p, pid, a.since(at))
		return
	}
	if !p.checked && p.ownBlocks() > 0 {
		a.uncheckedExecs++
	}
	a.inherited -= p.copies
	p.copies, p.child = 0, false
	if p.group != nil {
		p.group.exec(a, p, a.since(at))
		return
	}
	for _, id := range p.image.all() {
		s := a.sites.at(id)
		s.gone += s.liveCount
		s.liveCount, s.liveBytes = 0, 0
		if s.extras != nil {
			s.extras.live = excess{}
		}
		a.unwatch(s)
	}
	a.releaseAll(p)
	a.tellGone(p, ByExec, a.since(at))
	a.dropRegions(p)
	p.dropTouches()
	a.dropSpanTouches(p, false)
	p.heap.close()
	a.remember(a.unseenWarnings(p))
	base := p.image
	if len(base.stacks) == 0 {
		base = base.base
	}
	p.image = newImage(base)
	p.execs++
	p.total, p.extras = report.Heap{}, nil
	p.faults.drop(&a.events)
	p.pools = nil
	if p.checked {
		p.past = append(p.past, p.verdicts...)
	}
	p.checked = false
	p.replaced, p.pages, p.verdicts, p.leaked, p.check = overwrites{}, correlation{}, nil, nil, nil
	p.goHeap = nil
	p.walk = freeWalk{}
	p.unseen, p.info.GoHeap, p.info.Untraced, p.info.Probed = unseen{}, false, nil, 0
	p.partial, p.info.Attached, p.info.Unprobed = false, false, false
}

// splitMemory ends the sharing of memory. The child keeps access to the parent's
// stacks: those of its new image may have been sent before this was known.
func (a *Analyzer) splitMemory(parent *process, child uint32, at uint64) {
	a.unshare(child)
	if info, ok := a.waiting[child]; ok {
		delete(a.waiting, child)
		info.Attached, info.Unprobed = false, false
		if a.tooManyListed() {
			p := a.childGroupOf(parent).join(a, info, nil)
			p.image.noStacks, p.damage = true, parent.damage.after(at)
			return
		}
		p := a.startProcess(info, parent.image)
		p.began, p.damage = at, parent.damage.after(at)
		return
	}
	if len(a.earlyImages) < maxEarlyImages {
		a.earlyImages[child] = newImage(parent.image)
	}
}

func (a *Analyzer) unshare(child uint32) {
	delete(a.byPID, child)
	a.processesChanged()
}

// exit marks a process as ended. Its live blocks stay: they are what it never
// freed.
func (a *Analyzer) exit(p *process, pid uint32, at uint64) {
	if p.info.PID != pid {
		a.unshare(pid)
		delete(a.waiting, pid)
		return
	}
	p.exited, p.ended, p.lastAt = true, at, a.at
	p.faults.drop(&a.events)
	p.image.recent = nil
	a.dropInherited(p)
	a.endRegions(p)
	a.endTouches(p)
	a.dropSpanTouches(p, true)
	if p.group != nil {
		p.group.leave(a, p, ByExit, at)
	}
	a.releaseAll(p)
	// Children that share its memory go on as unknown processes: without the
	// parent's description nothing can be said of them.
	for child, q := range a.byPID {
		if q == p && child != pid {
			a.unshare(child)
		}
	}
}
