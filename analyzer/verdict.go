package analyzer

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/reach"
	"github.com/memtrace/memtrace/analyzer/report"
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

// conclude takes Verdicts, for the Reports to come.
func (a *Analyzer) conclude(v *input.Verdicts) {
	p := a.byPID[v.PID]
	if p == nil {
		return
	}
	a.leakChecks++
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
		k := key{b.site, l.Kind, p.doubts(b)}
		i, ok := index[k]
		if !ok {
			i = uint32(len(verdicts))
			index[k] = i
			verdicts = append(verdicts, report.Leak{Site: int(b.site), Process: p.id, PID: int(p.info.PID), Kind: reach.Kind(l.Kind).String(),
				Confidence: confidence(v), Why: why(v, l.Kind), OldestNS: b.time, NewestNS: b.time})
			if k.doubt {
				p.downgrade(&verdicts[i])
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
// knows of the other where both are about one site. See ReportOptions for endedAt.
func (a *Analyzer) allLeaks(now, endedAt uint64) []report.Leak {
	out := a.verdicts(now)
	verdicts, candidates := len(out), a.leaks(now, a.config.MinAge, endedAt)
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
			cmp.Compare(y.Bytes, x.Bytes), cmp.Compare(x.Process, y.Process),
			cmp.Compare(x.Site, y.Site), cmp.Compare(y.Confidence, x.Confidence))
	})
	return out
}
