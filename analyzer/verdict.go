package analyzer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/reach"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/procfs"
)

// CheckTime says when a process was checked for leaks.
type CheckTime string

const (
	CheckRunning    CheckTime = "running"     // while it ran on
	CheckStopped    CheckTime = "stopped"     // while it stood still
	CheckBeforeExit CheckTime = "before_exit" // as it called exit, before its exit handlers
	CheckAfterExit  CheckTime = "after_exit"  // as it ended, after its exit handlers
	CheckBeforeExec CheckTime = "before_exec" // as it called exec, by which another program takes its place
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

// OwnBlocks is how many live blocks a process has beside the copies that it began with.
func (a *Analyzer) OwnBlocks(pid uint32) uint64 {
	p := a.byPID[pid]
	if p == nil || p.exited || p.info.PID != pid {
		return 0
	}
	return p.ownBlocks()
}

// UncheckedExecs is how often a program with live blocks of its own was replaced
// by another without a leak check just before.
func (a *Analyzer) UncheckedExecs() int { return a.uncheckedExecs }

func (p *process) ownBlocks() (n uint64) {
	p.heap.all(func(b block) bool {
		if b.time >= p.forkedAt {
			n++
		}
		return true
	})
	return n
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

// conclude takes Verdicts, for the Reports to come.
func (a *Analyzer) conclude(v *input.Verdicts) {
	p := a.byPID[v.PID]
	if p == nil {
		return
	}
	p.verdicts, p.leaked = a.judge(p, v)
	p.check = reportCheck(v)
	p.checked = v.When == string(CheckBeforeExec)
}

// judge sums up the leaked blocks that still live by site and kind.
func (a *Analyzer) judge(p *process, v *input.Verdicts) ([]report.Leak, leakedBlocks) {
	type key struct {
		site  siteID
		kind  input.LeakKind
		doubt bool
	}
	began := a.since(v.Began)
	index := make(map[key]uint32)
	verdicts, leaked, extra := []report.Leak{}, leakedBlocks{}, []excess{}
	for _, l := range v.Leaks { // by address
		b, ok := p.heap.get(l.Addr, p.heap.hash(l.Addr))
		if !ok || b.time > began || b.size != l.Size || b.site != siteID(l.Site) {
			continue
		}
		if b.time < p.forkedAt { // a copy of its parent's, which has a verdict on it
			continue
		}
		k := key{b.site, l.Kind, p.damage.doubts(b)}
		i, ok := index[k]
		if !ok {
			i = uint32(len(verdicts))
			index[k] = i
			verdicts = append(verdicts, report.Leak{Site: int(b.site), Process: p.id, PID: int(p.info.PID), Kind: reach.Kind(l.Kind).String(),
				Confidence: confidence(v), Why: why(v, l.Kind), OldestNS: b.time, NewestNS: b.time})
			if k.doubt {
				p.damage.downgrade(&verdicts[i])
			}
			extra = append(extra, excess{})
		}
		leaked = append(leaked, leakedBlock{l.Addr, i})
		a.count(&verdicts[i], b)
		extra[i].add(a.intervals.excess(b))
	}
	unblamed := a.unattributedLosses()
	for i := range verdicts {
		extra[i].extendLeak(&verdicts[i])
		if unblamed != 0 {
			verdicts[i].Why += fmt.Sprintf("; %d events were lost, of whichever process: a free may be among them", unblamed)
		}
	}
	return verdicts, leaked
}

// count adds a block to a verdict, whose OldestNS and NewestNS are times of
// allocation until a Report tells them as ages.
func (a *Analyzer) count(l *report.Leak, b block) {
	l.Bytes += b.size
	l.Count++
	l.OldestNS, l.NewestNS = min(l.OldestNS, b.time), max(l.NewestNS, b.time)
	if b.time < a.config.WarmUp {
		x := a.intervals.excess(b)
		l.WarmUpBytes += b.size + x.bytes
	}
}

// setPause takes a Paused.
func (a *Analyzer) setPause(v input.Paused) {
	if p := a.byPID[v.PID]; p != nil && p.check != nil {
		p.check.PauseNS = v.PausedNS
	}
}

// A leakedBlock is a block that a verdict counts.
type leakedBlock struct {
	addr    uint64
	verdict uint32 // index into process.verdicts
}

// leakedBlocks are sorted by address.
type leakedBlocks []leakedBlock

func (l leakedBlocks) find(addr uint64) (uint32, bool) {
	i, ok := slices.BinarySearchFunc(l, addr, func(b leakedBlock, addr uint64) int { return cmp.Compare(b.addr, addr) })
	if !ok {
		return 0, false
	}
	return l[i].verdict, true
}

// reportCheck is what a Report says of the check itself.
func reportCheck(v *input.Verdicts) *report.LeakCheck {
	return &report.LeakCheck{
		When: v.When, Scans: v.Scans, Registers: v.Registers,
		RootBytes: v.Roots, AllocatorBytes: v.Own, UnsureBytes: v.Unsure, ReadBytes: v.ReadBytes, UnreadBytes: v.Unread, SwappedBytes: v.SwappedBytes,
		TookNS: v.TookNS, PauseNS: v.PausedNS, LongestHoldNS: v.LongestHoldNS,
		Reachable: report.LeakSum(v.Reachable), ReachableBy: reachableBy(func(kind reach.RootKind) report.LeakSum { return report.LeakSum(v.ReachableBy[kind]) }),
	}
}

func sumOf(s reach.Sum) report.LeakSum { return report.LeakSum{Count: s.Count, Bytes: s.Bytes} }

// reachableBy puts what a scan found into the Report's words.
func reachableBy(by func(reach.RootKind) report.LeakSum) report.ReachableBy {
	return report.ReachableBy{
		Globals: by(reach.Globals), ThreadLocal: by(reach.ThreadLocal), Stacks: by(reach.Stacks), Registers: by(reach.Registers),
		Shmem: by(reach.SharedMemory), AnonMmap: by(reach.Anonymous), HeapBeforeAttach: by(reach.HeapBeforeAttach),
		Allocator: by(reach.AllocatorMemory),
	}
}

// confidence: what a scan of a process that stands still finds is certain, as
// far as pointers can be told; one that runs may keep a pointer in a register.
func confidence(v *input.Verdicts) float64 {
	switch {
	case v.Unread != 0:
		return 0.9
	case !v.Still:
		return maxConfidence
	}
	return 1
}

// why says what was looked for and where.
func why(v *input.Verdicts, kind input.LeakKind) string {
	where := ""
	if v.When == string(CheckBeforeExec) {
		where = "before it executed another program "
	}
	where += fmt.Sprintf("in %s of roots", report.HumanBytes(float64(v.Roots)))
	if v.Registers {
		where += " and the registers"
	}
	switch {
	case v.Still:
		where += " while the process stood still"
	case v.Scans > 2:
		where += fmt.Sprintf(" in %d scans over %s", v.Scans, report.HumanTime(v.ApartNS))
	case v.Scans == 2:
		where += fmt.Sprintf(" in two scans %s apart", report.HumanTime(v.ApartNS))
	}
	if !v.Still && !v.Registers {
		where += "; registers were not read"
	}
	if v.Unread != 0 {
		where += fmt.Sprintf(" (%s could not be read)", report.HumanBytes(float64(v.Unread)))
	}
	switch kind {
	case input.Indirect:
		return "only leaked blocks point to it; no other pointer was found " + where
	case input.Possible:
		return "only pointers into it, unaligned or tagged ones, or blocks held by such, lead to it, " + where
	}
	return "no pointer to it was found " + where
}

// allLeaks lists the verdicts on all processes, then the candidates; each
// knows of the other where both are about one site.
func (a *Analyzer) allLeaks(now uint64) []report.Leak {
	out := a.verdicts(now)
	verdicts, candidates := len(out), a.leaks(now, a.config.MinAge)
	growing := make(map[int]uint64)
	for _, l := range candidates {
		s := a.sites.at(siteID(l.Site))
		l.Process, l.PID, l.OldestNS = s.proc.id, int(s.proc.info.PID), s.oldestAge(now)
		if pages := s.pages(); l.Kind == "growing" && s.proc.pages.at != 0 {
			l.Pages = &report.LeakPages{Resident: pages.resident, Untouched: pages.untouched, Swapped: pages.swapped}
		}
		extendCandidate(&l, s)
		if l.Growing {
			growing[l.Site] = l.GrowthPerSecond
		}
		out = append(out, l)
	}
	for i := range out[:verdicts] {
		if rate, ok := growing[out[i].Site]; ok {
			out[i].Growing, out[i].GrowthPerSecond = true, rate
			out[i].Why += fmt.Sprintf("; the live bytes of its site keep rising, by %s/s", report.HumanBytes(float64(rate)))
		}
	}
	return out
}

// verdicts lists those of all processes: definite ones first, then by bytes.
func (a *Analyzer) verdicts(now uint64) []report.Leak {
	out := []report.Leak{}
	for _, p := range a.processes {
		of := slices.Concat(p.past, p.verdicts)
		if p.groupEntry != nil {
			of = p.groupEntry.verdicts()
		}
		for _, l := range of {
			l.OldestNS, l.NewestNS = now-min(now, l.OldestNS), now-min(now, l.NewestNS)
			out = append(out, l)
		}
	}
	order := report.LeakKinds()
	slices.SortFunc(out, func(x, y report.Leak) int {
		return cmp.Or(cmp.Compare(slices.Index(order, x.Kind), slices.Index(order, y.Kind)),
			cmp.Compare(y.Bytes, x.Bytes), cmp.Compare(x.Site, y.Site), cmp.Compare(y.Confidence, x.Confidence))
	})
	return out
}
