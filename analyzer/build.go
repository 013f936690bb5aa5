package analyzer

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/analyzer/stats"
	"github.com/memtrace/memtrace/tracer/event"
)

// ReportOptions say what a Report is to hold.
type ReportOptions struct {
	Final bool
	Top   int    // most sites to list; 0 means all
	Sort  string // a word of SortKeys; "" means "live"
	By    string // a word of report.Groupings; "" means no groups
	// EndedAt leaves out the sites and candidates of processes that a Report of that instant, or an earlier one, had as
	// ended, ns since Config.Start: nothing of them changes any more, and of a program that forks there may be a
	// thousand. 0: none.
	EndedAt uint64
}

// A draft is a Report without names.
type draft struct {
	opt     ReportOptions
	report  *report.Report
	leaking map[int]bool // sites by their IDs
}

// mark takes an Instant.
func (a *Analyzer) mark(now uint64) {
	a.at = a.since(now)
	clear(a.passing)
	a.findWrappers(false)
	a.visitBlocks(a.at)
	for _, s := range a.sites.all {
		s.grown, s.reported = int64(s.held())-int64(s.reported), s.held()
	}
	for _, p := range a.processes {
		p.goHeap.mark()
	}
	for i := range a.regions.all {
		s := &a.regions.all[i]
		s.grown, s.reported = int64(s.liveBytes)-int64(s.reported), s.liveBytes
	}
}

// Report tells all that is known at the last Instant, which nothing but Names and PoolName
// has come after. Code that was not named has addresses only.
func (a *Analyzer) Report(opt ReportOptions) *report.Report {
	d := a.draftOf(opt)
	r := d.report
	a.drafted = nil
	if opt.Final {
		a.findWrappers(true)
	}
	for i, p := range a.processes {
		r.Processes[i].Pools, r.Processes[i].PoolsMore = a.reportPools(p)
	}
	a.nameSites(d)
	dropOwnBlocks(r)
	for i := range r.Regions {
		a.nameRegion(&r.Regions[i])
	}
	a.nameFirstTouched(r.Touched)
	r.Identify()
	return r
}

// draftOf makes a Report without names, or finds the one that was made to ask for them.
func (a *Analyzer) draftOf(opt ReportOptions) *draft {
	if d := a.drafted; d != nil && d.opt == opt {
		return d
	}
	r := &report.Report{
		Schema:    report.Schema,
		Final:     opt.Final,
		WindowNS:  a.at,
		Basis:     a.basis(),
		Tracer:    a.config.Tracer,
		Sampling:  a.sampling(),
		Events:    a.events,
		Processes: a.reportProcesses(opt.Top),
		Leaks:     a.allLeaks(a.at, opt.EndedAt),
		Touched:   a.firstTouched(opt.Top),
		Shed:      a.shed(),
		Warnings:  a.warnings(),
	}
	a.extra.extend(&r.Events)
	addLeftOut(&r.Events, a.leftOut)
	var lost uint64
	if r.Stacks, lost = a.stackCounts(opt.Final); lost != 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("the frames of the call stacks of %d allocations were lost: they count under [stack lost], and who made them is not known", lost))
	}
	r.Regions, r.RegionsMore = a.reportRegions(opt.Top)
	a.drafted = &draft{opt: opt, report: r}
	a.listSites(a.drafted)
	return a.drafted
}

// sortKeys are the orders of a Report's sites, each from high to low.
var sortKeys = []struct {
	word string
	key  func(s *site, now uint64) int64
}{
	{"live", func(s *site, _ uint64) int64 { return int64(s.held()) }},
	{"alloc", func(s *site, _ uint64) int64 { return int64(s.allocBytes + s.allocExcess()) }},
	{"count", func(s *site, _ uint64) int64 { return int64(s.allocs()) }},
	{"peak", func(s *site, _ uint64) int64 { return int64(s.peakBytes) }},
	{"resident", func(s *site, _ uint64) int64 { return int64(s.pages().resident) }},
	{"growth", func(s *site, _ uint64) int64 { return s.growth() }},
	{"temp", func(s *site, _ uint64) int64 { return int64(s.tempCount) }},
	{"faults", func(s *site, _ uint64) int64 { return int64(s.faults) }},
	{"age", func(s *site, now uint64) int64 { return int64(s.oldestAge(now)) }},
}

// SortKeys lists the words for ReportOptions.Sort.
func SortKeys() []string {
	var out []string
	for _, k := range sortKeys {
		out = append(out, k.word)
	}
	return out
}

func (a *Analyzer) reportProcesses(top int) []report.Process {
	out := make([]report.Process, 0, len(a.processes))
	for _, p := range a.processes {
		allocators := append([]string{}, p.info.Allocators...)
		out = append(out, report.Process{
			ID: p.id, PID: int(p.info.PID), InnerPIDs: p.info.InnerPIDs, Comm: p.info.Comm, Exe: p.info.Exe,
			ExitCode: p.exitCode, Exited: p.exited, Execs: p.execs, TracedNS: p.traced(a.at),
			Attached: p.info.Attached, Allocators: allocators, Unprobed: p.info.Unprobed,
			Heap: p.total, GoHeap: p.goHeap.report(a), LeakCheck: p.check, Loss: p.lossReport(), FreeWalk: p.freeWalkReport(),
		})
		p.extras.extend(&out[len(out)-1].Heap)
		if h := &out[len(out)-1].Heap; p.freesUnseen() && p.held() > h.PeakBytes {
			h.PeakBytes, h.PeakAtNS = p.held(), a.at
		}
		p.pages.fill(&out[len(out)-1])
		p.touched.fill(&out[len(out)-1])
		out[len(out)-1].Mappings, out[len(out)-1].MappingsMore = reportMappings(p.pages.mappings, top)
		if p.groupEntry != nil {
			out[len(out)-1].Heap, out[len(out)-1].Children = p.groupEntry.sum(), p.groupEntry.count
			if n := p.groupEntry.touches; n > 0 && a.basis() == report.FirstTouchBasis {
				out[len(out)-1].FirstTouch = &report.FirstTouch{ChildTouches: n}
			}
		}
	}
	return out
}

// reportSites lists in a Report the first top sites in the order asked for, 0: all, and those of leaks
// wherever they stand, and sums up the others. See ReportOptions for endedAt.
func (a *Analyzer) reportSites(r *report.Report, top int, sort string, endedAt uint64, leaking map[int]bool) {
	order := a.order(a.at, sort, endedAt)
	if top <= 0 {
		top = len(order)
	}
	r.Sites = make([]report.Site, 0, min(len(order), top+len(leaking)))
	for i, o := range order {
		s := a.sites.at(o.id).report(o.id, a.at)
		if i >= top && !leaking[s.ID] {
			r.LeaveOut(&s)
			continue
		}
		r.Sites = append(r.Sites, s)
	}
}

type ordered struct {
	key         int64
	live, alloc uint64
	process     int
	id          siteID
}

// order sorts all sites by a word of SortKeys, then by live and allocated bytes, then by process, as two that run
// side by side come to new sites in no order of theirs, then by age of the site. See ReportOptions for endedAt.
func (a *Analyzer) order(now uint64, word string, endedAt uint64) []ordered {
	key := sortKeys[0].key
	for _, k := range sortKeys {
		if k.word == word {
			key = k.key
		}
	}
	out := make([]ordered, 0, a.sites.used)
	for id, s := range a.sites.all {
		if s.proc.endedBy(endedAt) {
			continue
		}
		out = append(out, ordered{key(s, now), s.held(), s.allocBytes + s.allocExcess(), s.proc.id, id})
	}
	slices.SortFunc(out, func(x, y ordered) int {
		return cmp.Or(cmp.Compare(y.key, x.key), cmp.Compare(y.live, x.live),
			cmp.Compare(y.alloc, x.alloc), cmp.Compare(x.process, y.process), cmp.Compare(x.id, y.id))
	})
	return out
}

// growth is the change of the live bytes from the Instant before the last one to that.
func (s *site) growth() int64 { return s.grown }

// oldestAge is the age in ns of the oldest live block, as of the last visitBlocks.
func (s *site) oldestAge(now uint64) uint64 {
	if s.live == nil || s.liveCount == 0 {
		return 0
	}
	return now - min(now, s.live.oldest)
}

// pages are the site's figures of the last residency pass. Of a sample, they
// are what its blocks were found to be, in proportion.
func (s *site) pages() sitePages {
	if s.live == nil {
		return sitePages{}
	}
	p := s.live.pages
	return sitePages{s.scale(p.resident), s.scale(p.untouched), s.scale(p.swapped)}
}

// report gives a site's figures; name adds its stack.
func (s *site) report(id siteID, now uint64) report.Site {
	pages := s.pages()
	out := report.Site{
		ID: int(id), Process: s.proc.id, PID: int(s.proc.info.PID),
		LiveBytes: s.liveBytes, LiveCount: s.liveCount,
		AllocBytes: s.allocBytes, AllocCount: s.allocCount,
		FreeCount: s.freeCount, TemporaryCount: s.tempCount,
		PeakLiveBytes: s.peakBytes, Faults: s.faults,
		ResidentBytes: pages.resident, UntouchedBytes: pages.untouched, SwappedBytes: pages.swapped,
		OldestNS: s.oldestAge(now), GrowthBytes: s.growth(), FreesUnseen: s.proc.freesUnseen() || s.proc.walk.until != 0,
	}
	if s.live != nil {
		out.DoubtfulCount, out.DoubtfulBytes = s.live.doubtful.count, s.live.doubtful.bytes
	}
	if s.proc.freesUnseen() {
		out.PeakLiveBytes = max(s.peakBytes, s.held())
	}
	s.extras.extendSite(&out)
	return out
}

// name fills in what a site is called: its stack, function and histogram.
func (a *Analyzer) name(out *report.Site) {
	s := a.sites.at(siteID(out.ID))
	out.SizeHistogram = make([][2]uint64, 0, s.sizes.Span())
	for b, n := range s.sizes.All {
		n += s.sizeExcess(b)
		out.SizeHistogram = append(out.SizeHistogram, [2]uint64{stats.BucketMax(b), n})
	}
	n := a.nameStack(s.image, s.stack, s.other)
	out.Function, out.Stack, out.Truncated, out.FramePointers = n.function, n.frames, n.truncated, n.guessed
	if len(n.frames) > 0 {
		out.Function, out.FunctionFrame = a.functionOf(n.frames)
	}
}

// stackName is what a call site is called by.
type stackName struct {
	function string
	frames   []*report.Frame // never nil
	stackEnding
}

// nameStack names the call site of a stack; other says that it stands for those
// beyond a limit.
func (a *Analyzer) nameStack(im *image, id event.StackID, other bool) stackName {
	n := stackName{frames: []*report.Frame{}}
	switch ref, ok := im.stack(id); {
	case other:
		n.function = "[all other sites]"
	case id == 0:
		n.function = "[no stack]"
	case !ok:
		n.function = "[stack lost]"
	default:
		n.stackEnding, n.frames = ref.ending, a.namesOf(ref)
		n.function = report.SiteFunction(n.frames)
	}
	return n
}

// warnings says in what ways the figures are incomplete.
func (a *Analyzer) warnings() []string {
	out := []string{}
	warn := func(n uint64, format string) {
		if n != 0 {
			out = append(out, fmt.Sprintf(format, n))
		}
	}
	out = append(out, shedWarnings(a.shed())...)
	warn(a.regions.untracked, "%d mappings, or parts of some, are not tracked: there are too many at a time")
	warn(a.regions.beyond, "%d mappings are counted under [all other sites]: there are too many sites")
	warn(a.intervals.stray, "%d blocks were sampled at one interval too many: estimates treat them as if it were the nearest other one")
	warn(a.unknownProcessEvents, "%d events came from processes that are not traced")
	out = append(out, a.past...)
	for _, p := range a.processes {
		out = append(out, p.pages.warnings(p)...)
		out = append(out, a.unseenWarnings(p)...)
		if p.pools != nil {
			warn(p.pools.beyond, "%d blocks of pools are not known to be in one, and stay live when it ends: there are too many pools")
		}
	}
	return out
}
