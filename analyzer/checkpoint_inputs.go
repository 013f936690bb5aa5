package analyzer

import (
	"cmp"
	"maps"
	"slices"

	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/tracer/event"
)

// heldBatch is how many events of a Held are given at once.
const heldBatch = 1 << 12

// Inputs gives what an Analyzer is to be told to know what lived. It may be called once, and lets go of what it has given.
// An error of give ends it.
func (c *Checkpoint) Inputs(give func(input.Input) error) error {
	x := heldGiver{checkpoint: c, give: give}
	x.one(input.Checkpoint{At: c.at})
	x.one(input.Loss{Loss: c.loss})
	x.one(c.leftOut)
	for i := range c.processes {
		x.process(&c.processes[i])
		c.processes[i] = heldProcess{}
	}
	for _, in := range c.shared {
		x.one(in)
	}
	x.stacks(c.early)
	return x.err
}

// A heldGiver gives the inputs of a Checkpoint until the first error.
type heldGiver struct {
	checkpoint *Checkpoint
	give       func(input.Input) error
	batch      input.Held
	err        error
}

func (x *heldGiver) one(in input.Input) {
	if x.err == nil {
		x.err = x.give(in)
	}
}

func (x *heldGiver) event(e event.Event) {
	x.batch.Events = append(x.batch.Events, e)
	if len(x.batch.Events) == heldBatch {
		x.flush()
	}
}

func (x *heldGiver) flush() {
	if len(x.batch.Events) > 0 {
		x.one(&x.batch)
		x.batch.Events = x.batch.Events[:0]
	}
}

func (x *heldGiver) process(h *heldProcess) {
	if x.err != nil {
		return
	}
	x.one(input.Started{ProcessInfo: h.info})
	x.one(h.carried)
	x.stacks(h.stacks)
	for _, in := range h.goHeap {
		x.one(in)
	}
	in := x.pools(h)
	for _, e := range h.regions {
		x.event(e)
	}
	x.blocks(h, in)
	x.flush()
	x.damage(h)
	x.walk(h)
}

// stacks gives stacks and their names, in an order by which they take little room.
func (x *heldGiver) stacks(stacks []heldStack) {
	slices.SortFunc(stacks, func(s, t heldStack) int {
		return cmp.Or(cmp.Compare(s.pid, t.pid), cmp.Compare(s.at, t.at), cmp.Compare(s.id, t.id))
	})
	for i := range stacks {
		s := &stacks[i]
		x.one(input.Stack{Stack: event.Stack{
			ID: s.id, Time: s.at, PID: s.pid, Frames: s.frames,
			Truncated: s.ending.truncated, Deeper: s.ending.deeper, FPGuess: s.ending.guessed, Bottom: s.ending.bottom,
		}})
	}
	for i := range stacks {
		if s := &stacks[i]; s.names != nil {
			x.one(input.Names{Stack: s.number, PID: s.pid, ID: s.id, Last: true, Frames: namesAsInput(s.names)})
		}
	}
}

func namesAsInput(frames []*report.Frame) []*input.Frame {
	out := make([]*input.Frame, len(frames))
	for i, f := range frames {
		out[i] = (*input.Frame)(f) // the same fields
	}
	return out
}

// blocks gives the live blocks in the order of their times. pools says in which one they are, by address.
func (x *heldGiver) blocks(h *heldProcess, pools map[uint64]uint64) {
	slices.SortFunc(h.slots, func(s, t slot) int {
		if b, d := s.time(), t.time(); b != d {
			return cmp.Compare(b, d)
		}
		return cmp.Compare(s.addr, t.addr)
	})
	c := x.checkpoint
	for i := range h.slots {
		if x.err != nil {
			return
		}
		b := h.slots[i].block()
		s := h.sites[b.site]
		e := event.Event{
			Kind: event.Alloc, Time: c.start + b.time, PID: h.info.PID, TID: h.info.PID, Addr: b.addr, Size: b.size,
			Stack: s.stack, Child: c.intervals.bytes[b.interval],
		}
		if s.other {
			e.Flags |= event.FlagOldOnly
		}
		if pool, ok := pools[b.addr]; ok {
			e.Flags, e.Old = e.Flags|event.FlagPooled, pool
		}
		x.event(e)
	}
}

// pools gives a process's pools, parents first, and returns the pool of each block that is in one.
func (x *heldGiver) pools(h *heldProcess) map[uint64]uint64 {
	ps := h.pools
	if ps == nil {
		return nil
	}
	var order []poolID
	for id := range ps.all {
		if own := &ps.all[id]; own.addr != 0 && own.parent == 0 {
			order = append(append(order, poolID(id)), ps.below(poolID(id))...)
		}
	}
	for _, id := range order {
		own := &ps.all[id]
		x.event(event.Event{
			Kind: event.PoolBegin, Time: x.checkpoint.at, PID: h.info.PID, TID: h.info.PID, Addr: own.addr, Old: ps.all[own.parent].addr,
			Size: own.text, Stack: own.made,
		})
	}
	x.flush()
	for _, id := range order {
		if own := &ps.all[id]; ps.nameOf(own) != "" {
			x.one(input.PoolName{PID: h.info.PID, Pool: own.addr, Text: own.text, Name: ps.nameOf(own)})
		}
	}
	of := make(map[uint64]uint64)
	for i := range ps.nodes {
		if n := &ps.nodes[i]; n.addr != 0 {
			of[n.addr] = ps.all[n.pool].addr
		}
	}
	return of
}

// damage gives what was lost of a process's events, and which blocks that leaves in doubt.
func (x *heldGiver) damage(h *heldProcess) {
	d, c := h.damage, x.checkpoint
	if d == nil {
		return
	}
	for _, s := range d.spans {
		x.one(input.ProcessLoss{PID: h.info.PID, Events: max(1, s.Events), First: c.start + s.FromNS, Last: c.start + s.ToNS})
	}
	if d.verified == 0 {
		return
	}
	repair := input.Repair{PID: h.info.PID, Began: c.start + d.verified}
	for i := range h.slots {
		if b := h.slots[i].block(); d.unsure[b.addr] {
			repair.Unsure = append(repair.Unsure, input.Block{Addr: b.addr, Size: b.size, AllocatedAt: c.start + b.time})
		}
	}
	x.one(repair)
}

// walk gives what the last walk of a process whose frees are not seen, or were not, has told.
func (x *heldGiver) walk(h *heldProcess) {
	if h.walk.began == 0 {
		return
	}
	like := input.FreeWalk{
		PID: h.info.PID, Began: x.checkpoint.start + h.walk.began, TookNS: h.walk.took, Still: h.walk.still, Held: true,
	}
	for _, in := range input.FreeWalks(like, nil, slices.Sorted(maps.Keys(h.walk.unsure))) {
		x.one(in)
	}
}
