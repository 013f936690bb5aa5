//go:build linux && !viewer

package analyzer

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/reach"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/procfs"
)

// A Check is a leak check of one process under way: one scan of its memory
// while it stands still, or two and more while it runs.
type Check struct {
	When   CheckTime
	Paused time.Duration // for which it stood still

	proc   *process
	pid    uint32
	scans  int
	began  uint64    // of the first scan, ns, CLOCK_MONOTONIC
	starts time.Time // of the first scan
	apart  time.Duration
	still  bool
	regs   bool // registers were read
	last   reach.Result
	read   uint64        // bytes, by all scans
	hold   time.Duration // the longest, of all scans
	leaks  []reach.Leak  // that all scans so far agree on
	agreed bool          // the last scan called all leaked that those before did
}

const (
	minScans = 2 // of a process that runs
	surely   = 3 // how many there may be, however long they take
	maxScans = 10
	patience = 5 * time.Second // for more scans than surely
)

// GoesOn reports whether a process that runs is to be scanned once more. Scans
// that disprove what others found, other than by what was freed between, say
// that pointers are being moved about as memory is read; each one more disproves
// most of what is left. What is leaked all scans call so.
func (c *Check) GoesOn() bool {
	if c.scans < minScans {
		return true
	}
	return len(c.leaks) > 0 && !c.agreed && (c.scans < surely || c.scans < maxScans && time.Since(c.starts) < patience)
}

// Left is how many blocks all scans so far call leaked.
func (c *Check) Left() int { return len(c.leaks) }

// agree keeps those of the leaks so far that the next scan has found, too.
func (c *Check) agree(found []reach.Leak) {
	if c.scans++; c.scans == 1 {
		c.leaks = found
		return
	}
	left := reach.Agree(c.leaks, found)
	c.agreed = slices.Equal(left, c.leaks)
	c.leaks = left
}

// NewCheck begins a leak check of a process that is known.
func (a *Analyzer) NewCheck(pid uint32) (*Check, error) {
	p := a.byPID[pid]
	if p == nil || p.exited {
		return nil, fmt.Errorf("check process %d for leaks: %w", pid, procfs.ErrGone)
	}
	return &Check{proc: p, pid: pid}, nil
}

// Scan reads the process's memory once. That every block was seen (o.AllSeen)
// is not believed where it is known not to be so (sawAll): all memory outside of
// the blocks that were seen is then searched for pointers. A block of a pool is its
// pool's, whatever points to it: it is no leak, and what it points to is none.
// All events until now should have been applied.
func (a *Analyzer) Scan(c *Check, p *procfs.Process, o reach.Options, now uint64) (reach.Result, error) {
	pools := c.proc.pools
	o.AllSeen = o.AllSeen && a.sawAll(c.proc)
	a.describeAllocators(c.proc, &o)
	res, err := reach.Scan(p, func(yield func(addr, size uint64, site uint32) bool) {
		c.proc.heap.all(func(b block) bool {
			return pools.poolOf(b.addr) != 0 || yield(b.addr, b.size, uint32(b.site))
		})
	}, o)
	if err != nil {
		return res, err
	}
	if c.scans == 0 {
		c.began, c.starts = now, res.Began
	}
	c.apart = res.Began.Sub(c.starts)
	c.agree(res.Leaks)
	c.read += res.Read
	c.hold = max(c.hold, res.LongestStep)
	c.still, c.regs, c.last = o.Threads != nil, o.Threads != nil || o.Registers != nil, res
	res.Leaks = nil
	c.last.Leaks = nil
	return res, nil
}

// sawAll reports whether each live block of a process is known, as far as the
// analyzer can tell. It goes by the latest Loss and LeftOut: a call can
// have been left out without any block of the sample telling.
func (a *Analyzer) sawAll(p *process) bool {
	return a.events.Lost == 0 && a.untracked == 0 && a.sampling() == nil && !a.mayBeLeftOut() && !p.partial && p.pools == nil
}

// describeAllocators says what a scan may know of the allocators' own memory. Where
// the C library's mmap was probed it is known what the program has mapped itself.
// An allocator of the program's own may keep pointers in headers in front of its blocks.
func (a *Analyzer) describeAllocators(p *process, o *reach.Options) {
	libc, ownAllocator := false, false
	for _, name := range p.info.Allocators {
		switch family, _, _ := strings.Cut(name, " "); family {
		case "glibc":
			libc = true
		case "mimalloc":
			o.Mimalloc = true
		case "scudo":
			o.Scudo = true
		case "jemalloc":
		case "tcmalloc":
			o.Unsure = true
		case "musl":
			libc, o.Unsure = true, true
		case "rust":
			ownAllocator = true
		default:
			ownAllocator, o.Headers = true, true
		}
	}
	o.Allocators = allocatorFiles(p.info.Allocators)
	o.Unsure = o.Unsure || ownAllocator || !o.AllSeen
	switch {
	case o.AllSeen && libc && !ownAllocator && a.regions.untracked == 0:
		o.Mapped = p.mapped
	case o.Mimalloc || o.Scudo:
		o.Unsure = true
	}
}

// mapped yields what the program mapped itself, as far as it is there.
func (p *process) mapped(yield func(start, end uint64) bool) {
	if p.regions == nil {
		return
	}
	for r := range p.regions.all {
		if !yield(r.start, r.end) {
			return
		}
	}
}

// Verdicts are what the scans agree on, for Take. It fails where the process is gone, and another
// has its PID, or is listed no more.
func (a *Analyzer) Verdicts(c *Check) (input.Verdicts, error) {
	if a.byPID[c.pid] != c.proc {
		return input.Verdicts{}, fmt.Errorf("conclude the leak check of process %d: %w", c.pid, procfs.ErrGone)
	}
	v := input.Verdicts{
		PID: c.pid, When: string(c.When), Scans: c.scans, Began: c.began, ApartNS: uint64(c.apart), Still: c.still, Registers: c.regs,
		TookNS: uint64(c.last.Took), PausedNS: uint64(c.Paused), LongestHoldNS: uint64(c.hold), ReadBytes: c.read,
		Roots: c.last.Roots, Own: c.last.Own, Unsure: c.last.Unsure, Unread: c.last.Unread, SwappedBytes: c.last.Swapped,
		Reachable: input.Sum(c.last.Sums[reach.Reachable]), Leaks: make([]input.Leaked, 0, len(c.leaks)),
	}
	for kind, sum := range c.last.ByRoots {
		v.ReachableBy[kind] = input.Sum(sum)
	}
	for _, l := range c.leaks {
		v.Leaks = append(v.Leaks, input.Leaked{Addr: l.Addr, Size: l.Size, Site: l.Site, Kind: input.LeakKind(l.Kind)})
	}
	return v, nil
}

func sumOf(s reach.Sum) report.LeakSum { return report.LeakSum{Count: s.Count, Bytes: s.Bytes} }
