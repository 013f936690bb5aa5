package analyzer

import "github.com/memtrace/memtrace/tracer/event"

// Bounds on the copies of blocks that children begin with. Beyond them a child
// begins without, and its process says that it has blocks from before.
const (
	maxInherited    = 1 << 20 // of one child: a copy takes 40 ms
	maxInheritedAll = 1 << 22 // of all children that live: 160 MB
)

// forkWithCopies begins a child at its fork, with copies of its parent's live blocks.
func (a *Analyzer) forkWithCopies(parent *process, e *event.Event) {
	if err := a.clone(parent, e.Child, a.since(e.Time)); err != nil {
		a.untracked++
	}
}

// clone adds a forked child that has its own copy of its parent's memory. It starts with copies of the
// parent's live blocks, which its sites count as inherited, not as allocated. It does nothing once an event of
// the child has been applied.
func (a *Analyzer) clone(from *process, child uint32, now uint64) error {
	info := from.info
	info.PID = child
	early := a.byPID[child]
	if early != nil && (early.exited || early.info.PID != child) {
		early = nil
	}
	if early != nil {
		if early.total.AllocCount != 0 || early.total.LiveCount != 0 {
			return nil // too late: it has a heap of its own
		}
		info = early.info // it was added before its fork was read
	}
	var heap *liveHeap
	n := from.heap.count
	if n <= maxInherited && a.inherited+n <= maxInheritedAll {
		var err error
		if heap, err = from.heap.clone(); err != nil {
			return err
		}
	}
	if early != nil {
		a.forget(early)
	}
	p := a.startChild(info, from)
	p.began, p.forkedAt, p.child = now, now, true
	a.inheritRegions(p, from)
	a.inheritTouches(p, from)
	p.partial = heap == nil || from.partial // what is a copy of a part is one
	p.describe(info)
	if heap != nil {
		p.heap, p.pools, p.damage = heap, from.pools.clone(), from.damage.inherited()
		p.walk = from.walk.inherited()
		p.copies = n
		a.inherited += n
		a.inherit(p)
	}
	if early != nil {
		p.addLosses(early.damage)
		p.image.takeStacks(early.image)
	}
	return nil
}

// startChild makes a process that has its parent's stacks, and those of its own
// that were read before its fork.
func (a *Analyzer) startChild(info ProcessInfo, from *process) *process {
	early := a.earlyImages[info.PID]
	delete(a.earlyImages, info.PID)
	var p *process
	if a.tooManyListed() {
		p = a.childGroupOf(from).join(a, info, from.image)
	} else {
		p = a.startProcess(info, from.image)
	}
	p.image.takeStacks(early)
	return p
}

// dropInherited subtracts the blocks that a child inherited from the sums as it
// ends: they are its parent's, and only their copies are gone.
func (a *Analyzer) dropInherited(p *process) {
	n := p.copies
	a.inherited -= n
	p.copies = 0
	if n == 0 || p.forkedAt == 0 {
		return
	}
	own := a.dropBlocks(p, p.forkedAt, ByExit, p.ended)
	p.heap.close()
	for _, b := range own {
		if _, _, err := p.heap.put(b, p.heap.hash(b.addr)); err != nil {
			a.untracked++
		}
	}
}

// dropBlocks subtracts the blocks allocated before a time, 0 for all, from the sums of
// a process and its sites, without counting them as freed. It returns the others. by and at
// are for the Observer.
func (a *Analyzer) dropBlocks(p *process, before uint64, by Cause, at uint64) (others []block) {
	p.heap.all(func(b block) bool {
		if before != 0 && b.time >= before {
			others = append(others, b)
			return true
		}
		s := a.sites.at(b.site)
		s.gone++
		s.liveCount--
		s.liveBytes -= b.size
		p.total.LiveCount--
		p.total.LiveBytes -= b.size
		a.dropSampled(p, s, b)
		if p.pools != nil {
			p.pools.leave(b, a.intervals.excess(b))
		}
		a.tellEnded(p, b, by, at)
		return true
	})
	return others
}
