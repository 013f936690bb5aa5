package analyzer

import (
	"fmt"

	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/reach"
	"github.com/memtrace/memtrace/analyzer/report"
)

// A freeWalk is what is known of a process whose frees are not seen: which
// of its blocks are gone was last told by the allocator's own records, or by
// somebody else's block at the same address. docs/probes-allocs.md says why
// that is exact, and of what.
type freeWalk struct {
	until uint64          // ns since Config.Start: blocks from before may be gone, though frees are seen by now; 0: none
	began uint64          // likewise: of the last walk; 0: none yet
	still bool            // nothing ran in that
	took  uint64          // ns: that walk
	walks uint64          // all that there were
	under map[uint64]bool // the unsure blocks of the one that is being told
	// unsure are blocks from before the last walk of which it could not tell.
	unsure map[uint64]bool
	freed  uint64 // blocks that walks have found gone
}

// freesUnseen reports whether frees of the process are not seen now.
func (p *process) freesUnseen() bool { return p.info.FreesUnseen }

// unwalked reports whether a live block may be gone: its free would not have been seen, and no walk has told since.
func (p *process) unwalked(b block) bool {
	w := &p.walk
	if !p.freesUnseen() && (w.until == 0 || b.time > w.until) {
		return false
	}
	return b.time > w.began || w.unsure[b.addr]
}

// doubts reports whether a live block may have been freed.
func (p *process) doubts(b block) bool { return p.unwalked(b) || p.damage.doubts(b) }

// seesFrees notes that frees of a process are seen from a time on (ns since Config.Start), as they were not before.
func (p *process) seesFrees(at uint64) { p.walk.until = max(at, 1) }

// inherited is what a forked child has of it, whose blocks are copies of its parent's.
func (w *freeWalk) inherited() freeWalk {
	out := freeWalk{until: w.until, began: w.began, still: w.still, took: w.took, unsure: make(map[uint64]bool, len(w.unsure))}
	for addr := range w.unsure {
		out.unsure[addr] = true
	}
	return out
}

// walked takes a FreeWalk: the blocks that are free count as freed.
func (a *Analyzer) walked(in input.FreeWalk) {
	p := a.byPID[in.PID]
	if p == nil || p.exited || !p.freesUnseen() && !in.Held {
		return
	}
	w, began := &p.walk, a.since(in.Began)
	var addr uint64
	for _, step := range in.Freed {
		addr += step
		if b, ok := p.livesSince(addr, began); ok {
			a.foundFree(p, b, began)
		}
	}
	if w.under == nil {
		w.under = make(map[uint64]bool)
	}
	addr = 0
	for _, step := range in.Unsure {
		addr += step
		if _, ok := p.livesSince(addr, began); ok {
			w.under[addr] = true
		}
	}
	if in.More {
		return
	}
	w.unsure, w.under = w.under, nil
	w.began, w.took, w.still = began, in.TookNS, in.Still
	if !in.Held {
		w.walks++
		if p.damage != nil { // what the walk says holds for lost frees, too
			p.damage.verified, p.damage.unsure = began, w.unsure
		}
	}
	a.levelAt(p)
}

// livesSince returns the block at an address if it is from before a time (ns since Config.Start).
func (p *process) livesSince(addr, began uint64) (block, bool) {
	b, ok := p.heap.get(addr, p.heap.hash(addr))
	return b, ok && b.time <= began
}

// foundFree ends a block that a walk has found gone. It was freed after the walk before, if it was there then.
func (a *Analyzer) foundFree(p *process, b block, began uint64) {
	p.heap.remove(b.addr, p.heap.hash(b.addr))
	at := b.time
	if p.walk.began > b.time && p.walk.began < began {
		at = p.walk.began
	}
	a.close(p, b, at)
	a.tellEnded(p, b, ByRepair, at)
	p.walk.freed++
}

// levelAt notes what the process and its sites hold right after a walk: their peaks, and what they count with until the next one.
func (a *Analyzer) levelAt(p *process) {
	if held := p.held(); held > p.total.PeakBytes {
		p.total.PeakBytes, p.total.PeakAtNS = held, p.walk.began
	}
	for _, id := range p.sites() {
		s := a.sites.at(id)
		s.peakBytes = max(s.peakBytes, s.held())
		if s.live != nil || s.liveCount != 0 && a.watch(s) {
			s.live.walked = sample{s.held(), s.liveCount}
		}
	}
}

// level is what a site counts with at the end of a window: what it held at the last walk, where frees are not seen.
func (s *site) level() sample {
	if s.proc.freesUnseen() {
		return s.live.walked
	}
	return sample{s.held(), s.liveCount}
}

// freeWalkReport is what a Report says of it; nil where all frees were seen.
func (p *process) freeWalkReport() *report.FreeWalk {
	if !p.freesUnseen() && p.walk.until == 0 {
		return nil
	}
	out := &report.FreeWalk{
		SeenSinceNS: p.walk.until, Walks: p.walk.walks, WalkedNS: p.walk.began, Still: p.walk.still, TookNS: p.walk.took, Freed: p.walk.freed,
		Inexact: report.InexactWithoutFrees(),
	}
	if p.freesUnseen() {
		out.SeenSinceNS = 0
	}
	members := []*process{p}
	if p.groupEntry != nil {
		for _, m := range p.groupEntry.members {
			members = append(members, m)
		}
	}
	for _, m := range members {
		m.heap.all(func(b block) bool {
			switch {
			case !m.unwalked(b):
			case b.time > m.walk.began:
				out.NewerCount++
				out.NewerBytes += b.size
			default:
				out.UnsureCount++
				out.UnsureBytes += b.size
			}
			return true
		})
	}
	return out
}

// downgrade has a verdict on blocks that may just have been freed say so.
func (p *process) downgrade(l *report.Leak) {
	if p.damage != nil {
		p.damage.downgrade(l)
		return
	}
	l.Kind, l.Doubtful = reach.Possible.String(), true
	l.Confidence = min(l.Confidence, doubtfulConfidence)
	l.Why = fmt.Sprintf("it may have been freed: free has no probe, and the allocator's records do not tell; %s", l.Why)
}
