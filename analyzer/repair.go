//go:build linux && !viewer

package analyzer

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/memtrace/memtrace/analyzer/heapwalk"
	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/procfs"
)

// A Repair finds out which blocks of a process were freed unseen.
type Repair struct {
	proc    *process
	pid     uint32
	began   uint64  // ns since Config.Start
	blocks  []block // by address, as those that follow
	claims  []heapwalk.Claim
	states  []heapwalk.State // what all looks so far say of each; Unknown where they differ
	looks   int
	skipped map[uint64]bool
}

// NewRepair begins a repair at now (ns, CLOCK_MONOTONIC); nil where no block
// of the process is in doubt. All events until now should have been applied.
func (a *Analyzer) NewRepair(pid uint32, now uint64) *Repair {
	p := a.byPID[pid]
	if p == nil || p.exited || p.damage == nil {
		return nil
	}
	r := &Repair{proc: p, pid: pid, began: a.since(now)}
	p.heap.all(func(b block) bool {
		if p.damage.doubts(b) {
			r.blocks = append(r.blocks, b)
		}
		return true
	})
	if len(r.blocks) == 0 {
		return nil
	}
	slices.SortFunc(r.blocks, func(x, y block) int { return cmp.Compare(x.addr, y.addr) })
	r.claims, r.states = make([]heapwalk.Claim, len(r.blocks)), make([]heapwalk.State, len(r.blocks))
	for i, b := range r.blocks {
		r.claims[i] = heapwalk.Claim{Addr: b.addr, Size: b.size}
	}
	return r
}

// Look asks the records of glibc's allocator, once. Only what all looks agree
// on counts: where the process runs, one reading may be wrong. Errors are those
// of heapwalk.Judge; the blocks then stay in doubt.
func (r *Repair) Look(p *procfs.Process, o heapwalk.Options) error {
	o.Lost = true
	if _, err := heapwalk.Judge(p, o, r.claims); err != nil {
		return fmt.Errorf("look for blocks that were freed unseen: %w", err)
	}
	for i, c := range r.claims {
		if r.looks == 0 {
			r.states[i] = c.State
		} else if r.states[i] != c.State {
			r.states[i] = heapwalk.Unknown
		}
	}
	r.looks++
	return nil
}

// Skip leaves blocks as they are, whatever the allocator's records say: they
// are just being handed out. Call it before the first look and after each.
func (r *Repair) Skip(blocks []uint64) {
	for _, addr := range blocks {
		if r.skipped == nil {
			r.skipped = make(map[uint64]bool)
		}
		r.skipped[addr] = true
	}
}

// Found is what the looks have found, for Take; ok is false where that is nothing, or the process has ended.
func (a *Analyzer) Found(r *Repair) (in input.Repair, ok bool) {
	if r.looks == 0 || r.proc.exited || a.byPID[r.pid] != r.proc {
		return in, false
	}
	in.PID, in.Began = r.pid, a.config.Start+r.began
	for i, b := range r.blocks {
		was := input.Block{Addr: b.addr, Size: b.size, AllocatedAt: a.config.Start + b.time}
		switch {
		case r.skipped[b.addr] || r.states[i] == heapwalk.Unknown:
			in.Unsure = append(in.Unsure, was)
		case r.states[i] == heapwalk.Freed:
			in.Freed = append(in.Freed, was)
		}
	}
	return in, true
}
