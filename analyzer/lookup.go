package analyzer

import "github.com/memtrace/memtrace/tracer/event"

// StackNumber is how the Analyzer numbers a stack of the program that a process runs now: Names.Stack. It is for a
// stream that lacks something, whose own numbers are another's.
func (a *Analyzer) StackNumber(pid uint32, id event.StackID) (uint64, bool) {
	p := a.byPID[pid]
	if p == nil {
		return 0, false
	}
	ref, ok := p.image.stack(id)
	return ref.number(), ok && ref.frames != 0
}

// SiteAt is how it numbers the site of the live block at addr.
func (a *Analyzer) SiteAt(pid uint32, addr uint64) (uint32, bool) {
	p := a.byPID[pid]
	if p == nil || p.exited {
		return 0, false
	}
	b, ok := p.heap.get(addr, p.heap.hash(addr))
	return uint32(b.site), ok
}

// Living are the PIDs of the processes that have not exited, in no particular order.
func (a *Analyzer) Living() []uint32 {
	var out []uint32
	for pid, p := range a.byPID {
		if !p.exited && p.info.PID == pid {
			out = append(out, pid)
		}
	}
	return out
}
