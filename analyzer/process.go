package analyzer

import (
	"maps"
	"slices"

	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/tracer/event"
)

// ProcessInfo describes a traced process.
type ProcessInfo = input.ProcessInfo

// A process is the state of one traced process: of its present program image,
// as exec starts afresh.
type process struct {
	id       int // Process.ID; 0: it is in a group, and has no entry of its own
	execs    int // how often it has replaced its program
	info     ProcessInfo
	heap     *liveHeap
	image    *image
	faults   pendingFaults
	replaced overwrites
	damage   *damage      // nil: no event of it was lost
	walk     freeWalk     // of --probes allocs
	pools    *pools       // nil: no event told of one
	regions  *regionTable // nil until the first
	touched  *touchTable  // nil until a page fault has a stack
	spans    *spanTouches // the same of a trace that has probes at other times
	pages    correlation
	unseen   unseen
	goHeap   *goHeap       // nil: it has no memory profile of Go's runtime that was read
	verdicts []report.Leak // of the last leak check
	checked  bool          // that was made before an exec, which is still to come
	past     []report.Leak // of the checks before execs
	leaked   leakedBlocks
	check    *report.LeakCheck
	total    report.Heap // all but the figures of the residency pass
	extras   *extras     // of a sample; nil where all blocks were seen
	exited   bool
	began    uint64 // ns since Config.Start: when it became known
	ended    uint64 // likewise: when it exited
	lastAt   uint64 // likewise: the last Instant that did not know yet that it had
	exitCode *int
	partial  bool // a child that got no copies of its parent's blocks, which are in its memory all the same

	forkedAt   uint64      // ns since Config.Start: when it was forked
	child      bool        // it was forked from a traced process
	copies     uint64      // blocks that it began with
	group      *childGroup // that it is in; nil: it is listed itself
	groupEntry *childGroup // that it stands for in Reports; nil: it is a process
}

// An image is what one program image's call stacks mean: its stacks, and its
// sites by stack.
type image struct {
	stacks  map[event.StackID]stackRef
	sites   map[event.StackID]siteID
	regions map[event.StackID]regionSiteID // of call sites that map memory
	recent  *[recentSites]recentSite       // nil until the first site

	// base is where a stack is looked for that was not sent for this image:
	// the image before exec (stacks may arrive ahead of the Exec event) or
	// that of the process it was forked from.
	base *image

	other    siteID // stands for the sites beyond maxSites
	hasOther bool
	noStacks bool // its stacks are not kept

	owner *owner // whose its sites and stacks are; nil: not known yet
}

// recentSites is the number of sites an image finds without its map.
const recentSites = 512

type recentSite struct {
	stack event.StackID
	site  siteID
	known bool
}

func newImage(base *image) *image {
	var of *owner
	if base != nil {
		of = base.owner
	}
	return &image{
		owner:  of,
		stacks: make(map[event.StackID]stackRef),
		sites:  make(map[event.StackID]siteID),
		base:   base,
	}
}

// stack returns the frames that were sent for id.
func (m *image) stack(id event.StackID) (stackRef, bool) {
	for ; m != nil; m = m.base {
		if ref, ok := m.stacks[id]; ok {
			return ref, true
		}
	}
	return stackRef{}, false
}

// takeStacks adds the stacks that were sent for another image, or for those that it goes by and this one doesn't.
func (m *image) takeStacks(of *image) {
	for ; of != nil && of != m && of != m.base; of = of.base {
		for id, ref := range of.stacks {
			if _, ok := m.stacks[id]; !ok {
				m.stacks[id] = ref
			}
		}
	}
}

// addProcess takes a Started.
func (a *Analyzer) addProcess(info ProcessInfo) {
	p := a.byPID[info.PID]
	switch {
	case p == nil || p.exited:
		a.startProcess(info, a.earlyImages[info.PID])
		delete(a.earlyImages, info.PID)
	case p.info.PID == info.PID:
		a.describe(info)
	default:
		a.waiting[info.PID] = info
	}
}

// describe takes a Described.
func (a *Analyzer) describe(info ProcessInfo) {
	switch p := a.byPID[info.PID]; {
	case p == nil:
	case p.info.PID == info.PID:
		if p.freesUnseen() && !info.FreesUnseen {
			p.seesFrees(max(a.latest, a.at))
		}
		p.describe(info)
	default:
		a.waiting[info.PID] = info
	}
}

// describe takes a description of who saw the process attached to, but not
// whether there was room for copies of its parent's blocks.
func (p *process) describe(info ProcessInfo) {
	p.info = info
	p.info.Attached = info.Attached || p.partial
}

// endedBy reports whether a Report of that instant had the process as ended; 0: no Report.
func (p *process) endedBy(at uint64) bool { return p.exited && p.lastAt < at }

// Follows reports whether the events of a process are looked at: it is known, or shares the memory of one that is.
func (a *Analyzer) Follows(pid uint32) bool { return a.byPID[pid] != nil }

// Info returns the description of a process that is known, even if it has exited.
func (a *Analyzer) Info(pid uint32) (info ProcessInfo, ok bool) {
	p := a.byPID[pid]
	if p == nil || p.info.PID != pid {
		return ProcessInfo{}, false
	}
	return p.info, true
}

// setExitCode takes an ExitCode.
func (a *Analyzer) setExitCode(pid uint32, code int) {
	if p := a.byPID[pid]; p != nil && p.info.PID == pid {
		p.exitCode = &code
	}
}

func (a *Analyzer) startProcess(info ProcessInfo, base *image) *process {
	p := &process{info: info, heap: a.newHeap(info.UID), image: newImage(base), began: max(a.latest, a.at)}
	p.image.owner = a.detail.of(info.UID)
	a.list(p)
	a.byPID[info.PID] = p
	a.processesChanged()
	return p
}

// traced is for how long it was traced, ns: until a time, or its end. 0: that is not known.
func (p *process) traced(now uint64) uint64 {
	if p.groupEntry != nil {
		return 0 // its members began and ended one after the other
	}
	if p.exited {
		now = p.ended
	}
	return now - min(now, p.began)
}

// list gives a process an entry of its own in Reports. IDs are never given out again.
func (a *Analyzer) list(p *process) {
	a.listed++
	p.id = a.listed
	a.processes = append(a.processes, p)
}

// inherit gives the blocks of a cloned heap to sites of its own process.
func (a *Analyzer) inherit(p *process) {
	own := a.inheritSites(p)
	for i := range p.heap.pool.used {
		p.heap.pool.at(i).all(func(v *slot) bool {
			b := v.block()
			id := own[b.site]
			b.site = id
			*v = pack(b)
			s := a.sites.at(id)
			s.inherited++
			s.liveCount++
			s.liveBytes += b.size
			a.extendInherited(p, s, b)
			s.peakBytes = s.held()
			p.total.LiveCount++
			p.total.LiveBytes += b.size
			a.tellCopy(p, b)
			return true
		})
	}
	p.total.PeakBytes = p.held()
}

// inheritSites makes sites for those that the blocks of a cloned heap are of, and returns them by these. They
// come in the order that their parent's have: that of the blocks is another one in each heap.
func (a *Analyzer) inheritSites(p *process) map[siteID]siteID {
	own, last := make(map[siteID]siteID), siteID(maxSites)
	p.heap.all(func(b block) bool {
		if b.site != last {
			own[b.site], last = 0, b.site
		}
		return true
	})
	for _, id := range slices.Sorted(maps.Keys(own)) {
		own[id] = a.siteOf(p, a.sites.at(id).stack)
	}
	return own
}

// all lists the sites of an image.
func (m *image) all() []siteID {
	out := make([]siteID, 0, len(m.sites)+1)
	for _, id := range m.sites {
		out = append(out, id)
	}
	if m.hasOther {
		out = append(out, m.other)
	}
	return out
}
