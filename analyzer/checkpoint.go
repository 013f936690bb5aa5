package analyzer

import (
	"cmp"
	"maps"
	"slices"

	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/tracer/event"
)

// A Checkpoint is all that lives at an instant, as a copy: another goroutine may read it while its Analyzer goes on.
// Making it takes as long as copying the live blocks, 24 bytes each, and lists of the sites and stacks.
type Checkpoint struct {
	start, at uint64 // ns, CLOCK_MONOTONIC
	intervals intervals
	processes []heldProcess
	shared    []input.Input // children that use a parent's memory
	early     []heldStack   // of processes that are still to come
	loss      event.Loss
	leftOut   input.LeftOut

	Blocks, Bytes uint64 // that live, and their size
}

// heldProcess is what a Checkpoint has of a process.
type heldProcess struct {
	info    ProcessInfo
	carried input.Carried
	slots   []slot
	sites   map[siteID]heldSite
	stacks  []heldStack
	regions []event.Event
	pools   *pools
	damage  *damage
	walk    freeWalk
	goHeap  []input.Input
}

type heldSite struct {
	stack event.StackID
	other bool
}

type heldStack struct {
	pid    uint32
	id     event.StackID
	number uint64
	frames []uint64
	ending stackEnding
	at     uint64
	names  []*report.Frame
}

// Checkpoint copies what lives now. It is for the goroutine that gives the Analyzer its inputs.
func (a *Analyzer) Checkpoint(now uint64) *Checkpoint {
	c := &Checkpoint{start: a.config.Start, at: now, intervals: a.intervals, loss: a.events.LostBy, leftOut: input.LeftOut(a.leftOut)}
	pids := slices.Collect(maps.Keys(a.byPID))
	slices.SortFunc(pids, func(x, y uint32) int { return cmp.Or(cmp.Compare(a.byPID[x].id, a.byPID[y].id), cmp.Compare(x, y)) })
	for _, pid := range pids {
		p := a.byPID[pid]
		switch {
		case p.exited:
		case p.info.PID == pid:
			c.processes = append(c.processes, a.heldProcess(p))
			c.Blocks += p.heap.count
			c.Bytes += p.total.LiveBytes
		default:
			c.shared = append(c.shared, &input.Held{Events: []event.Event{{Kind: event.Fork, Flags: event.FlagSharedVM, Time: now, PID: p.info.PID, TID: p.info.PID, Child: pid}}})
			if info, ok := a.waiting[pid]; ok {
				c.shared = append(c.shared, input.Described{ProcessInfo: info})
			}
		}
	}
	for pid, m := range a.earlyImages {
		c.early = a.appendStacks(c.early, pid, m)
	}
	return c
}

func (a *Analyzer) heldProcess(p *process) heldProcess {
	h := heldProcess{
		info: p.info, sites: make(map[siteID]heldSite), slots: make([]slot, 0, p.heap.count),
		carried: input.Carried{PID: p.info.PID, Execs: p.execs, Child: p.child, Copies: p.copies, Partial: p.partial},
		stacks:  a.appendStacks(nil, p.info.PID, p.image), damage: p.damage.inherited(), walk: p.walk.inherited(), pools: p.pools.copied(),
	}
	if p.damage != nil {
		h.damage.spans = slices.Clone(p.damage.spans) // with their events
	}
	h.goHeap = p.goHeap.held(p.info.PID)
	if p.forkedAt != 0 {
		h.carried.ForkedAt = a.config.Start + p.forkedAt
	}
	h.carried.FreeWalks = p.walk.walks
	if p.walk.until != 0 {
		h.carried.FreesSeenAt = a.config.Start + p.walk.until
	}
	for i := range p.heap.pool.used {
		p.heap.pool.at(i).all(func(s *slot) bool {
			h.slots = append(h.slots, *s)
			return true
		})
	}
	for _, id := range p.sites() {
		s := a.sites.at(id)
		h.sites[id] = heldSite{s.stack, s.other}
		if s.image != p.image && p.group != nil { // a group's sites go by the stacks of its own
			h.stacks = a.appendStack(h.stacks, p.info.PID, s.image, s.stack)
		}
	}
	if p.regions != nil {
		for r := range p.regions.all {
			h.regions = append(h.regions, a.heldRegion(p, r))
		}
	}
	return h
}

// sites lists those that live blocks of a process may have.
func (p *process) sites() []siteID {
	if p.group != nil {
		return p.group.listed.image.all()
	}
	return p.image.all()
}

// appendStacks lists all stacks that events of an image may name.
func (a *Analyzer) appendStacks(to []heldStack, pid uint32, m *image) []heldStack {
	var seen map[event.StackID]bool
	for ; m != nil; m = m.base {
		for id, ref := range m.stacks {
			if seen[id] {
				continue
			}
			to = append(to, a.heldStack(pid, id, ref))
		}
		if m.base != nil && seen == nil {
			seen = make(map[event.StackID]bool)
		}
		for id := range m.stacks {
			if seen != nil {
				seen[id] = true
			}
		}
	}
	return to
}

func (a *Analyzer) appendStack(to []heldStack, pid uint32, m *image, id event.StackID) []heldStack {
	if ref, ok := m.stack(id); ok {
		to = append(to, a.heldStack(pid, id, ref))
	}
	return to
}

// heldStack shares the frames, which never change.
func (a *Analyzer) heldStack(pid uint32, id event.StackID, ref stackRef) heldStack {
	return heldStack{pid, id, ref.number(), a.stacks.frames(ref), ref.ending, ref.at, a.frames[ref.number()]}
}

func (a *Analyzer) heldRegion(p *process, r *region) event.Event {
	s := &a.regions.all[r.site]
	e := event.Event{Kind: event.Mmap, Time: a.config.Start + r.time, PID: p.info.PID, TID: p.info.PID, Addr: r.start, Size: r.end - r.start, Stack: s.stack}
	for flag, own := range heldRegions {
		if r.flags&own != 0 {
			e.Flags |= flag
		}
	}
	return e
}

// copied is what a Checkpoint needs of the pools.
func (ps *pools) copied() *pools {
	if ps == nil {
		return nil
	}
	return &pools{all: slices.Clone(ps.all), nodes: slices.Clone(ps.nodes), names: maps.Clone(ps.names)}
}
