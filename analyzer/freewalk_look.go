//go:build linux && !viewer

package analyzer

import (
	"fmt"
	"time"

	"github.com/memtrace/memtrace/analyzer/heapwalk"
	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/procfs"
)

// A FreeWalk finds out which blocks of a process are gone whose frees are not seen.
type FreeWalk struct {
	proc    *process
	pid     uint32
	began   uint64 // ns, CLOCK_MONOTONIC
	claims  []heapwalk.Claim
	judged  heapwalk.Judged
	looked  bool
	skipped map[uint64]bool
}

// NewFreeWalk begins one at began (ns, CLOCK_MONOTONIC); nil where the frees of the process are seen, or it has ended.
// All events until then must have been applied.
func (a *Analyzer) NewFreeWalk(pid uint32, began uint64) *FreeWalk {
	p := a.byPID[pid]
	if p == nil || p.exited || p.info.PID != pid || !p.freesUnseen() {
		return nil
	}
	w := &FreeWalk{proc: p, pid: pid, began: began, claims: make([]heapwalk.Claim, 0, p.heap.count)}
	p.heap.all(func(b block) bool {
		if b.time <= a.since(began) {
			w.claims = append(w.claims, heapwalk.Claim{Addr: b.addr, Size: b.size})
		}
		return true
	})
	return w
}

// Look asks the records of glibc's allocator. Errors are those of heapwalk.Judge.
func (w *FreeWalk) Look(p *procfs.Process, o heapwalk.Options) (err error) {
	if len(w.claims) > 0 { // else there may not be a heap yet
		if w.judged, err = heapwalk.Judge(p, o, w.claims); err != nil {
			return fmt.Errorf("look for blocks of process %d that were freed: %w", w.pid, err)
		}
	}
	w.looked = true
	return nil
}

// Skip leaves blocks in doubt, whatever the allocator's records say: a thread is just being given them, or resizes
// them. Call it before and after Look.
func (w *FreeWalk) Skip(blocks []uint64) {
	for _, addr := range blocks {
		if w.skipped == nil {
			w.skipped = make(map[uint64]bool)
		}
		w.skipped[addr] = true
	}
}

// Took is how much of a processor's time Look took.
func (w *FreeWalk) Took() time.Duration { return w.judged.Took }

// Blocks is how many blocks were asked about.
func (w *FreeWalk) Blocks() int { return len(w.claims) }

// Freed is how many of them are free.
func (w *FreeWalk) Freed() (n int) {
	for i := range w.claims {
		if w.claims[i].State == heapwalk.Freed {
			n++
		}
	}
	return n
}

// FoundFree is what a FreeWalk has found, for Take; nothing where the process has ended or executed another program.
func (a *Analyzer) FoundFree(w *FreeWalk) []input.FreeWalk {
	if !w.looked || w.proc.exited || a.byPID[w.pid] != w.proc {
		return nil
	}
	var freed, unsure []uint64
	for i := range w.claims {
		switch c := &w.claims[i]; {
		case w.skipped[c.Addr] && c.State == heapwalk.Freed, c.State == heapwalk.Unknown:
			unsure = append(unsure, c.Addr)
		case c.State == heapwalk.Freed:
			freed = append(freed, c.Addr)
		}
	}
	like := input.FreeWalk{PID: w.pid, Began: w.began, TookNS: uint64(w.judged.Took), Still: w.judged.Still && len(w.skipped) == 0}
	return input.FreeWalks(like, freed, unsure)
}
