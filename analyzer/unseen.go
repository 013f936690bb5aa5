package analyzer

import (
	"fmt"
	"strings"

	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/tracer/event"
)

// unseen is what tells that a process has blocks that the trace never saw being
// allocated, and no lost event explains.
type unseen struct {
	frees   uint64 // of blocks that are not known
	again   uint64 // of those: at an address that such a free has been seen at before
	passed  uint64 // that may be the end of a thread, and are in neither
	strays  *strays
	unclear bool // calls were not looked at for a while: frees match nothing for that

	read  bool   // its memory has been, at least once
	first uint64 // what unexplained was at the first reading
}

// strays are frees that matched nothing.
type strays struct {
	// The first addresses of such frees. Of a process that was attached to, the first at
	// each may be of a block from before; the second one cannot be.
	at [1 << 10]uint64
	// Those of threads that are not their process's first.
	by [64]struct {
		thread uint32
		frees  uint32
		last   uint64 // ns
	}
}

const (
	// maxCached is more than glibc's malloc keeps for a thread. When that ends, glibc frees
	// them all once more: docs/tracing.md.
	maxCached = 4096
	// sameThread is how long a thread may pause and still be taken for the same one, in ns: IDs come again.
	sameThread = 10_000_000_000
	// minStrayFrees is how many frees must match nothing before it is said: a few
	// may be of calls that were under way as the probes came.
	minStrayFrees = 16
	// minUnexplained is how much anonymous memory must have come that nothing
	// explains, and how large a part of all resident memory it must be.
	minUnexplained      = 16 << 20
	minUnexplainedShare = 4 // a quarter
)

// strayFree notes a free of a block that is not known. While the probes come, those
// of free may be there before the others.
func (p *process) strayFree(e *event.Event, addr, hash uint64) {
	if p.info.Probed == 0 || e.Time < p.info.Probed {
		return
	}
	u := &p.unseen
	if u.strays == nil {
		u.strays = new(strays)
	}
	if e.TID != e.PID && !u.strays.beyondCache(e) {
		u.passed++
		return
	}
	u.frees++
	slot := &u.strays.at[hash%uint64(len(u.strays.at))]
	switch *slot {
	case 0:
		*slot = addr
	case addr:
		u.again++
	}
}

// beyondCache reports whether a thread has made more such frees than its end can.
func (s *strays) beyondCache(e *event.Event) bool {
	by := &s.by[e.TID%uint32(len(s.by))]
	if by.thread != e.TID || e.Time-min(e.Time, by.last) > sameThread {
		by.thread, by.frees = e.TID, 0
	}
	by.last = e.Time
	by.frees++
	return by.frees > maxCached
}

// looked notes the first reading of a process's memory. One that was seen from
// its first instruction on had nothing then.
func (u *unseen) looked(unexplained uint64, fromStart bool) {
	if u.read {
		return
	}
	u.read = true
	if !fromStart {
		u.first = unexplained
	}
}

// unexplained is the resident memory that no block, no region and no part of a runtime's is in. Of a Go program it
// is all outside of the heap, as the heap of its runtime is made of regions.
func (c *correlation) unexplained(goHeap bool) uint64 {
	if goHeap {
		return c.rssBy.AnonMmap
	}
	return c.rssBy.AnonMmap - max(c.traced, c.inParts()) // the two may overlap
}

// grown is how much of that came under the trace, and how much there is.
func (p *process) grown() (grown, now uint64) {
	now = p.pages.unexplained(p.info.GoHeap)
	return now - min(now, p.unseen.first), now
}

// unseenWarnings says what a process does that the trace does not see.
func (a *Analyzer) unseenWarnings(p *process) (out []string) {
	if p.info.Unprobed {
		return nil // which is said otherwise
	}
	if text := a.strayFrees(p); text != "" {
		out = append(out, text)
	}
	switch grown, now := p.grown(); {
	case p.info.GoHeap:
		out = append(out, p.goWarning(grown, now))
	case grown >= minUnexplained && grown >= p.pages.usage.RSS/minUnexplainedShare && a.sawCalls(p) && !p.child:
		out = append(out, p.growthWarning(grown, now))
	}
	return out
}

// maxPast bounds what is kept of programs that others replaced.
const maxPast = 32

// remember keeps warnings about a program that another is about to replace.
func (a *Analyzer) remember(warnings []string) {
	a.past = append(a.past, warnings[:min(len(warnings), maxPast-len(a.past))]...)
}

// sawCalls reports whether all calls of the probed functions have been seen.
func (a *Analyzer) sawCalls(p *process) bool {
	return a.events.Lost == 0 && p.damage == nil && a.untracked == 0 && a.sampling() == nil && !a.mayBeLeftOut() && !p.unseen.unclear
}

// strayFrees says that frees matched nothing, where that can have but one reason.
func (a *Analyzer) strayFrees(p *process) string {
	n, least, since := p.unseen.frees, "", "although it was seen from its first instruction on and nothing was lost"
	if p.info.Attached || p.child {
		n, least, since = p.unseen.again, "at least ", "at addresses at which one had been freed since the attach already, although nothing was lost"
	}
	if p.unseen.passed > 0 {
		least = "at least "
	}
	if n < minStrayFrees || !a.sawCalls(p) {
		return ""
	}
	return fmt.Sprintf("process %d: %s%d frees were of blocks whose allocation was not seen, %s: the program has blocks from functions that are not traced, "+
		"and those that it keeps are in no figure and no check for leaks. %s", p.info.PID, least, n, since, p.entryPoints())
}

// entryPoints says which functions these may be, and how they are added.
func (p *process) entryPoints() string {
	const shown = 8
	if names := p.info.Untraced; len(names) > 0 {
		more := ""
		if len(names) > shown {
			more = fmt.Sprintf(" and %d more", len(names)-shown)
			names = names[:shown]
		}
		return fmt.Sprintf("They may be among %s%s: name them, each with the place of its size among the arguments, counted from 0, as in --alloc-fn '%s:size=0' (docs/allocators.md)",
			strings.Join(names, ", "), more, names[0])
	}
	return "Name them with --alloc-fn 'FUNCTION:size=N' (docs/allocators.md; memtrace doctor -p PID shows which functions are traced)"
}

// goWarning says what is not seen of a program that has a heap of Go's runtime beside the one that is traced.
func (p *process) goWarning(grown, now uint64) string {
	figures := ""
	if p.unseen.read {
		figures = fmt.Sprintf(" Anonymous memory outside of the traced heap, where Go's lies, grew by %s to %s.", report.HumanBytes(float64(grown)), report.HumanBytes(float64(now)))
	}
	if p.goHeap != nil && p.goHeap.last.Problem == "" {
		return fmt.Sprintf("process %d: only what its C code allocates is traced: Go's runtime has a heap of its own and never calls malloc.%s "+
			"Sites of its Go code are Go's own samples (basis go_profile, docs/languages.md)", p.info.PID, figures)
	}
	return fmt.Sprintf("process %d: what its Go code allocates is not seen, only what its C code does: Go's runtime has a heap of its own and never calls malloc.%s "+
		"Go's own heap profile would tell what it allocates (docs/languages.md)", p.info.PID, figures)
}

// growthWarning says that memory came which nothing explains.
func (p *process) growthWarning(grown, now uint64) string {
	return fmt.Sprintf("process %d: anonymous memory that no traced block lies in, and that was not seen being mapped, grew by %s to %s: what allocates there is not seen. "+
		"It may be an allocator that memtrace does not know (--alloc-fn adds its functions), the heap of a language's runtime (its own profiler tells of that), "+
		"memory from before the attach that is written to only now, or freed memory that an allocator keeps", p.info.PID, report.HumanBytes(float64(grown)), report.HumanBytes(float64(now)))
}
