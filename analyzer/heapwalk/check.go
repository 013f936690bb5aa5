package heapwalk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/memtrace/memtrace/analyzer/reach"
	"github.com/memtrace/memtrace/procfs"
)

// CheckOptions of a Check.
type CheckOptions struct {
	// Threads are all threads of the process, where it stands still. Nil: it runs.
	Threads []reach.Thread
	// Registers returns the registers of all threads of a process that runs.
	// Nil: they are not read.
	Registers func() []uint64
	// Apart is the time between the two scans of a process that runs.
	Apart time.Duration
	// Symbol is that of Options.
	Symbol func(addr uint64) string
}

// A Leak is an allocated block that is not reachable.
type Leak struct {
	Addr, Size uint64
	Group      uint32 // index into Heap.Groups
	Kind       reach.Kind
}

// Result is what a Check found.
type Result struct {
	Heap    *Heap        // as it was last
	Scan    reach.Result // the last one; its Leaks are of that scan alone
	Leaks   []Leak       // by address
	Scans   int
	Apart   time.Duration // between the scans' beginnings
	Looks   int           // how often the blocks found were looked at between
	Cleared Sum           // blocks that the scans called leaked and that turned out to be in use
	Took    time.Duration
	// LongestStep is the longest call that read the target's memory.
	LongestStep time.Duration
}

// slack is how much more a block can hold than was asked for, but for blocks
// with a mapping of their own.
const slack = 15

// Check finds the leaked blocks of a process that was never traced: by one
// scan where it stands still, else by two that agree, with walks before and
// after each. Nobody says then that a block in both is the same one, rather
// than freed and allocated again; but what is leaked never changes. So the
// blocks in question are looked at many times between, and what has changed in
// any way is in use, with all that it points to. Where the process works
// meanwhile, further scans must agree too: some programs move pointers about
// faster than memory can be read.
func Check(ctx context.Context, p *procfs.Process, o CheckOptions) (*Result, error) {
	began := time.Now()
	c := &check{p: p, o: o}
	var err error
	if c.thread, err = threadOf(p, o.Threads); err == nil {
		if o.Threads != nil {
			err = c.still()
		} else {
			err = c.running(ctx)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("check process %d for leaks: %w", p.PID(), err)
	}
	c.Took = time.Since(began)
	return &c.Result, nil
}

// check is one Check under way.
type check struct {
	Result
	p      *procfs.Process
	o      CheckOptions
	thread int
	starts time.Time
	worked uint64 // clock ticks that the process had used before
}

// threadOf returns a thread that has the process's memory.
func threadOf(p *procfs.Process, threads []reach.Thread) (int, error) {
	if len(threads) > 0 {
		return threads[0].TID, nil
	}
	st, err := p.Stat()
	if err != nil || !st.Zombie() {
		return p.PID(), err
	}
	tids, err := p.Tasks()
	if err != nil {
		return 0, err
	}
	return tids[len(tids)-1], nil
}

func (c *check) walk() (*Heap, error) {
	h, err := Walk(c.p, Options{Thread: c.thread, Still: c.o.Threads != nil, Symbol: c.o.Symbol})
	if err == nil {
		c.LongestStep = max(c.LongestStep, h.LongestStep)
	}
	return h, err
}

// still checks a process that stands still.
func (c *check) still() error {
	h, err := c.walk()
	if err != nil {
		return err
	}
	found, err := c.scan(h, reach.Options{Threads: c.o.Threads})
	if err != nil {
		return err
	}
	c.Heap = h
	c.conclude(found)
	return nil
}

// scan asks which of the heap's blocks are reachable.
func (c *check) scan(h *Heap, o reach.Options) ([]reach.Leak, error) {
	o.Slack, o.Free = slack, h.unused
	res, err := reach.Scan(c.p, func(yield func(addr, size uint64, site uint32) bool) {
		for b := range h.All {
			if !yield(b.Addr, b.Size(), 0) {
				return
			}
		}
	}, o)
	if err != nil {
		return nil, err
	}
	if c.Scans++; c.Scans == 1 {
		c.starts = res.Began
	} else {
		c.Apart = res.Began.Sub(c.starts)
	}
	c.LongestStep = max(c.LongestStep, res.LongestStep)
	found := res.Leaks
	res.Leaks = nil
	c.Scan = res
	return found, nil
}

// running checks a process as it runs.
func (c *check) running(ctx context.Context) error {
	st, err := c.p.Stat()
	if err != nil {
		return err
	}
	c.worked = st.UTime + st.STime
	first, err := c.walkAndScan()
	if err != nil {
		return err
	}
	m, err := openMemory(c.p, c.thread, false)
	if err != nil {
		return err
	}
	defer m.close()
	w := newWatch(m, first)
	if err := w.until(ctx, c.starts.Add(c.o.Apart)); err != nil {
		return err
	}
	both := first
	for c.Scans < minScans || slices.ContainsFunc(both, certain) && c.goesOn() {
		again, err := c.walkAndScan()
		if err != nil {
			return err
		}
		if err := cmp.Or(w.look(), context.Cause(ctx)); err != nil {
			return err
		}
		both = reach.Agree(both, again)
	}
	c.Looks = w.looks
	kept, err := w.clear(both, c.Heap)
	if err == nil && m.budget.spent {
		err = ErrTooMuch // what could not be read then was taken for blocks without pointers
	}
	if err != nil {
		return err
	}
	c.Cleared.Count = uint64(len(both) - len(kept))
	for _, l := range both {
		c.Cleared.Bytes += l.Size
	}
	for _, l := range kept {
		c.Cleared.Bytes -= l.Size
	}
	c.conclude(kept)
	return nil
}

const (
	minScans  = 2
	busyScans = 5 // where the process works
	maxScans  = 12
	patience  = 5 * time.Second // for more scans than those
)

// certain tells what further scans can only disprove.
func certain(l reach.Leak) bool { return l.Kind != reach.Possible }

// goesOn reports whether more scans are called for, and affordable: the process
// has used processor time since the first one.
func (c *check) goesOn() bool {
	now, err := c.p.Stat()
	if err != nil {
		return false // it has ended, which the next reading tells
	}
	busy := now.UTime+now.STime > c.worked
	return busy && (c.Scans < busyScans || c.Scans < maxScans && time.Since(c.starts) < patience)
}

// walkAndScan walks, scans, and walks again, so that memory that was free and
// is not any more is taken for a root. It returns the leaked blocks that are
// allocated before and after.
func (c *check) walkAndScan() ([]reach.Leak, error) {
	before, err := c.walk()
	if err != nil {
		return nil, err
	}
	var after *Heap
	var failed error
	o := reach.Options{Registers: c.o.Registers, Revived: func(yield func(start, end uint64) bool) {
		if after, failed = c.walk(); failed == nil {
			before.changed(after, yield)
		}
	}}
	found, err := c.scan(before, o)
	if err := errors.Join(err, failed); err != nil {
		return nil, err
	}
	if after == nil {
		after = before
	}
	c.Heap = after
	return slices.DeleteFunc(found, func(l reach.Leak) bool { return !after.has(l) }), nil
}

// has reports whether a block is allocated.
func (h *Heap) has(l reach.Leak) bool {
	i, ok := h.blocks.find(l.Addr)
	return ok && !h.blocks.at(i).cached() && h.blocks.at(i).Size() == l.Size
}

// conclude makes the scans' findings the result.
func (c *check) conclude(found []reach.Leak) {
	for _, l := range found {
		if i, ok := c.Heap.blocks.find(l.Addr); ok {
			c.Leaks = append(c.Leaks, Leak{l.Addr, l.Size, c.Heap.blocks.at(i).Group(), l.Kind})
		}
	}
}

// unused yields the memory that holds nothing but what was freed, and the
// allocator's own records, ascending.
func (h *Heap) unused(yield func(start, end uint64) bool) {
	own := h.own
	for _, z := range h.free {
		for len(own) > 0 && own[0].start <= z.start {
			if !yield(own[0].start, own[0].end) {
				return
			}
			own = own[1:]
		}
		if !yield(z.start, z.end) {
			return
		}
	}
	for _, s := range own {
		if !yield(s.start, s.end) {
			return
		}
	}
}

// changed yields what was free in h, or no block of its own, and is not as it
// was any more in a later walk.
func (h *Heap) changed(later *Heap, yield func(start, end uint64) bool) {
	zones := later.free
	for _, z := range h.free {
		for len(zones) > 0 && zones[0].start < z.start {
			zones = zones[1:]
		}
		if len(zones) > 0 && zones[0] == z {
			continue
		}
		if !yield(z.start, z.end) {
			return
		}
	}
	for b := range later.All {
		if i, ok := h.blocks.find(b.Addr); ok && h.blocks.at(i).Size() == b.Size() && !h.blocks.at(i).cached() {
			continue
		}
		if !yield(b.Addr, b.Addr+b.Size()) {
			return
		}
	}
}

// pause is how long to wait until blocks are looked at again: irregularly, so
// that no program's own rhythm can keep step.
func pause() time.Duration {
	return time.Duration(2+rand.IntN(30)) * time.Millisecond
}
