package analyzer

import (
	"maps"
	"slices"

	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/tracer/event"
)

// A childGroup is the children of one process that came after so many others that
// they are no longer listed one by one: those of a shell script or of a build.
// Each has a heap of its own while it lives. They share sites, by the
// frames of the stacks. Only sums are kept of a process that has ended, so
// that memtrace's memory does not grow with their number.
type childGroup struct {
	listed  *process            // stands for all in Reports
	members map[uint32]*process // those that live, by PID
	count   int                 // that ever were
	touches uint64              // page faults of members that have stacks: whose those pages are is not kept
	leaks   leakSums            // verdicts on those that have ended
}

const (
	// maxListed is how many processes are listed one by one.
	maxListed = 1024
	// maxListedSites is how many sites there may be before further children
	// get none of their own.
	maxListedSites = 1 << 19
)

// tooManyListed reports whether further children are no longer listed.
func (a *Analyzer) tooManyListed() bool {
	limit := maxListed
	if a.config.maxListed != 0 {
		limit = a.config.maxListed
	}
	return len(a.processes) >= limit || a.sites.used >= maxListedSites
}

// childGroupOf returns the group that the children of p belong to.
func (a *Analyzer) childGroupOf(p *process) *childGroup {
	if p.group != nil {
		return p.group
	}
	c := a.childGroups[p]
	if c == nil {
		info := p.info
		info.Attached = true
		listed := &process{info: info, heap: a.newHeap(info.UID), image: newImage(nil)}
		listed.image.owner = a.detail.of(info.UID)
		c = &childGroup{listed: listed, members: make(map[uint32]*process)}
		listed.groupEntry = c
		a.childGroups[p] = c
		a.list(listed)
	}
	return c
}

// join begins a child that is not listed.
func (c *childGroup) join(a *Analyzer, info ProcessInfo, base *image) *process {
	p := &process{info: info, heap: a.newHeap(info.UID), image: newImage(base), group: c}
	p.image.owner = a.detail.of(info.UID)
	c.members[info.PID] = p
	c.count++
	a.byPID[info.PID] = p
	a.processesChanged()
	return p
}

// leave ends a member. Its own blocks that are live now were never freed, and
// the verdicts on it stay.
func (c *childGroup) leave(a *Analyzer, p *process, by Cause, at uint64) {
	t, sum := &p.total, &c.listed.total
	sum.AllocCount += t.AllocCount
	sum.AllocBytes += t.AllocBytes
	sum.FreeCount += t.FreeCount
	sum.TemporaryCount += t.TemporaryCount
	if t.PeakBytes > sum.PeakBytes {
		sum.PeakBytes, sum.PeakAtNS = t.PeakBytes, t.PeakAtNS
	}
	if p.extras != nil {
		c.listed.extra().merge(p.extras, false)
	}
	c.leaks.add(p.verdicts)
	a.dropBlocks(p, 0, by, at)
	p.heap.close()
	delete(c.members, p.info.PID)
	if a.byPID[p.info.PID] == p {
		delete(a.byPID, p.info.PID)
	}
	a.processesChanged()
}

// exec restarts a member. It now runs another program than the rest of the group, with
// other addresses, so that its blocks have no stacks.
func (c *childGroup) exec(a *Analyzer, p *process, at uint64) {
	pid := p.info.PID
	if !p.checked {
		p.verdicts = nil // on blocks that are gone with the program
	}
	c.leave(a, p, ByExec, at)
	next := c.join(a, ProcessInfo{PID: pid, UID: p.info.UID, FreesUnseen: p.info.FreesUnseen}, nil)
	next.image.noStacks, next.damage = true, p.damage // what was lost may be the new program's
	c.count--
}

// sum is what a Report says of the group's heaps, those of ended processes included.
func (c *childGroup) sum() report.Heap {
	h := c.listed.total
	all := extras{}
	if c.listed.extras != nil {
		all = *c.listed.extras
	}
	for p := range c.living {
		h.LiveBytes += p.total.LiveBytes
		h.LiveCount += p.total.LiveCount
		h.AllocBytes += p.total.AllocBytes
		h.AllocCount += p.total.AllocCount
		h.FreeCount += p.total.FreeCount
		h.TemporaryCount += p.total.TemporaryCount
		if p.total.PeakBytes > h.PeakBytes {
			h.PeakBytes, h.PeakAtNS = p.total.PeakBytes, p.total.PeakAtNS
		}
		if p.extras != nil {
			all.merge(p.extras, true)
		}
	}
	all.extend(&h)
	return h
}

// verdicts are those on all members, summed up. PIDs are that of the sites.
func (c *childGroup) verdicts() []report.Leak {
	sums := leakSums{maps.Clone(c.leaks.leaks)}
	for p := range c.living {
		sums.add(p.verdicts)
	}
	out := make([]report.Leak, 0, len(sums.leaks))
	for _, l := range sums.leaks {
		l.PID, l.Process = int(c.listed.info.PID), c.listed.id
		out = append(out, l)
	}
	return out
}

// site returns the site that a member's stack shares with those of the other members.
func (c *childGroup) site(a *Analyzer, m *image, stack event.StackID) (siteID, bool) {
	shared := c.listed.image
	canon := event.StackID(0)
	if ref, ok := m.stack(stack); ok && !m.noStacks {
		canon = framesID(a.stacks.frames(ref))
		shared.stacks[canon] = ref
	}
	id, ok := shared.sites[canon]
	if !ok {
		if id, ok = a.addSite(c.listed, canon); !ok {
			return id, false
		}
	}
	m.sites[stack] = id
	return id, true
}

// addStack keeps the frames of a member's stack, once for all members.
func (c *childGroup) addStack(a *Analyzer, m *image, s event.Stack) {
	if m.noStacks {
		return
	}
	canon := framesID(s.Frames)
	ref, ok := c.listed.image.stacks[canon]
	if !ok {
		if !a.keepsStack(c.listed.image, s) {
			return
		}
		ref = a.stacks.add(s)
		c.listed.image.stacks[canon] = ref
	}
	m.stacks[s.ID] = ref
}

// framesID identifies a stack by its frames alone (FNV-1a, by words).
func framesID(frames []uint64) event.StackID {
	h := uint64(14695981039346656037)
	for _, f := range frames {
		h = (h ^ f) * 1099511628211
		h ^= h >> 29
	}
	return event.StackID(h | 1)
}

// living yields the members that live by their PIDs: what is summed up of them must not depend on a map's order.
func (c *childGroup) living(yield func(*process) bool) {
	for _, pid := range slices.Sorted(maps.Keys(c.members)) {
		if !yield(c.members[pid]) {
			return
		}
	}
}

// heaps yields all processes that may have live blocks.
func (a *Analyzer) heaps(yield func(*process) bool) {
	for _, p := range a.processes {
		if !yield(p) {
			return
		}
		if p.groupEntry == nil {
			continue
		}
		for member := range p.groupEntry.living {
			if !yield(member) {
				return
			}
		}
	}
}
