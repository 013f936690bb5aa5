package analyzer

import (
	"math/rand/v2"
	"os"

	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/analyzer/stats"
	"github.com/memtrace/memtrace/analyzer/wrapper"
	"github.com/memtrace/memtrace/tracer/event"
)

// Config says what an Analyzer is to take for granted.
type Config struct {
	Start  uint64            // ns, CLOCK_MONOTONIC: when the trace began. Times in a Report count from it
	Tracer report.TracerInfo // passed on to the Report
	MinAge uint64            // ns: younger blocks are never called old
	WarmUp uint64            // ns since Start: growth and lifetimes before that make no candidates

	// FollowForks has a Fork event begin the child, with copies of its parent's
	// live blocks.
	FollowForks bool

	// Sample, if not nil, is told which blocks live, and Interval is what it
	// begins with: see event.Event.Interval.
	Sample   Sample
	Interval uint32

	// Wrappers are functions that the user calls wrappers of the allocator; nil: none.
	Wrappers *wrapper.Patterns
	// Native keeps the interpreter's own frames in stacks that have Python frames.
	Native bool

	// Counted says that calls which are not recorded are counted, all of them: see
	// LeftOut. The Report's events are then exact, also where blocks are sampled.
	Counted bool

	// NamePools says that pools' names can be had: see UnnamedPools.
	NamePools bool

	// SiteRoom is how many bytes call sites may take, with their stacks, and BlockRoom
	// the live blocks; 0: as many as they come to. One user's processes get at most
	// three quarters of what others' leave.
	SiteRoom, BlockRoom uint64

	// Observer, if not nil, is told of every block's life.
	Observer Observer

	// Seed begins the keys by which blocks are hashed, so that a target cannot choose addresses that collide.
	// By it a stream that is played back is gone through in the same order. Zero: New takes any.
	Seed [2]uint64

	// PageSize is that of the machine that was traced, bytes, a power of two: by it the kernel rounds what is mapped.
	// 0: this machine's.
	PageSize uint64

	maxListed int    // for tests; 0 means maxListed
	maxSites  uint32 // for tests; 0 means as many as siteID can number
}

// An Analyzer follows the live heaps of traced processes. See the package
// comment; docs/counting.md states what each counter counts.
type Analyzer struct {
	config               Config
	keys                 rand.PCG // for live heaps
	events               report.Events
	extra                eventExcess
	leftOut              report.LeftOut
	intervals            intervals
	processes            []*process               // in the order they became known
	goSites              int                      // sites of Go programs' own profiles that got an ID
	listed               int                      // how many ever were among them
	leakChecks           int                      // of processes, so far
	byPID                map[uint32]*process      // the latest process of a PID; children that share memory name their parent
	waiting              map[uint32]ProcessInfo   // descriptions of such children, for when they exec
	earlyImages          map[uint32]*image        // stacks of processes not known yet
	childGroups          map[*process]*childGroup // by the parent
	inherited            uint64                   // copies of blocks in children that live
	sites                siteTable
	detail               room // for sites and stacks
	blocks               room
	measured             []SiteMemory // of each site; for Sampler.Sample alone, for one process after the other
	regions              regionSites
	touchRoom            touchRoom
	spanSites            []spanSite
	spansLost            uint64 // touches that had no room in ledgers that have ended
	stacks               stackStore
	threads              lastAllocs
	windows              uint64   // closed so far, since warmAt
	warmedUp             bool     // the warm-up is over
	warmAt               uint64   // ns since Config.Start
	series               int      // sites with a liveStats
	untracked            uint64   // blocks that no memory could be had for
	past                 []string // warnings about programs that others have replaced
	unknownProcessEvents uint64   // events of processes not known

	recent  recentProcesses
	epoch   uint64                     // changes of which process a PID means
	sink    uint64                     // see Analyzer.warm
	frames  map[uint64][]*report.Frame // symbolized stacks, by stackRef.number
	passing map[uint64][]*report.Frame // names until the next Instant
	unnamed []UnnamedPool              // by the last Events
	at      uint64                     // ns since Config.Start: the last Instant
	from    uint64                     // ns since Config.Start: the Checkpoint that the stream began with; 0: none
	drafted *draft                     // for the Report of that, nil if there is none
	named   uint64                     // bytes that they take, about

	wrappers wrappers

	uncheckedExecs int // see UncheckedExecs

	told   Life   // what the Observer is being told
	latest uint64 // ns since Config.Start: the last event; for the Observer alone
}

// New returns an Analyzer with no process.
func New(c Config) *Analyzer {
	if c.Seed == [2]uint64{} {
		c.Seed = [2]uint64{rand.Uint64(), rand.Uint64()}
	}
	if c.PageSize == 0 {
		c.PageSize = uint64(os.Getpagesize())
	}
	limit := uint32(maxSites - reservedSites)
	if c.maxSites != 0 {
		limit = c.maxSites
	}
	a := &Analyzer{
		config:      c,
		keys:        *rand.NewPCG(c.Seed[0], c.Seed[1]),
		wrappers:    wrappers{named: c.Wrappers},
		warmedUp:    c.WarmUp == 0,
		byPID:       make(map[uint32]*process),
		waiting:     make(map[uint32]ProcessInfo),
		earlyImages: make(map[uint32]*image),
		childGroups: make(map[*process]*childGroup),
		sites:       siteTable{limit: limit},
		detail:      room{limit: c.SiteRoom},
		blocks:      room{limit: c.BlockRoom},
		regions:     regionSites{room: maxRegions},
		frames:      make(map[uint64][]*report.Frame),
		passing:     make(map[uint64][]*report.Frame),
	}
	a.touchRoom = touchRoom{chunks: maxTouchChunks, blocks: &a.blocks}
	if a.basis() != report.FirstTouchBasis && c.BlockRoom != 0 {
		a.touchRoom.chunks = int(min(c.BlockRoom/2/touchChunkBytes, maxTouchChunks)) // blocks come again
	}
	return a
}

// Close frees the memory of the live heaps, which the garbage collector does
// not know. Nothing but Site may be called afterwards.
func (a *Analyzer) Close() {
	for p := range a.heaps {
		p.heap.close()
	}
	a.processes = nil
	clear(a.byPID)
	a.processesChanged()
}

// setLoss takes a Loss.
func (a *Analyzer) setLoss(l event.Loss) {
	a.events.LostBy = l
	a.events.Lost = l.Lost()
}

// recentProcesses is a direct-mapped table of processes by PID, which saves the
// look-up in the map where events of many processes come in turns.
type recentProcesses [1 << 10]struct {
	pid     uint32
	process *process // nil: not known
}

// process returns the process whose memory pid uses, or nil.
func (a *Analyzer) process(pid uint32) *process {
	r := &a.recent[pid%uint32(len(a.recent))]
	if r.pid == pid && r.process != nil {
		return r.process
	}
	r.pid, r.process = pid, a.byPID[pid]
	return r.process
}

// processesChanged has to follow each change of byPID.
func (a *Analyzer) processesChanged() {
	a.epoch++
	clear(a.recent[:])
}

// since converts a time to ns since Config.Start, what is earlier to 0.
func (a *Analyzer) since(time uint64) uint64 {
	if time <= a.config.Start {
		return 0
	}
	return min(time-a.config.Start, maxTime)
}

// maxSeries bounds the sites that have a liveStats, of about 1.5 KiB each at
// most. Later sites do without a past; they get one when earlier ones have
// been without live blocks for a whole series.
const maxSeries = 1 << 17

// closeWindow takes a Window: it records what each site holds.
func (a *Analyzer) closeWindow(now uint64) {
	if !a.warmedUp {
		a.endWarmUp(a.since(now))
		return
	}
	for _, s := range a.sites.all {
		if s.live == nil {
			if s.liveCount == 0 || !a.watch(s) {
				continue
			}
		}
		s.live.windows.record(a.windows, s.level())
		if s.liveCount == 0 && s.live.windows.idle() {
			a.unwatch(s)
		}
	}
	a.windows++
}

// endWarmUp forgets lifetimes of the warm-up, once that is over.
func (a *Analyzer) endWarmUp(now uint64) {
	if now < a.config.WarmUp {
		return
	}
	a.warmedUp, a.warmAt = true, now
	for _, s := range a.sites.all {
		s.lifetimes.Reset()
	}
}

// watch gives a site its liveStats, where there is room.
func (a *Analyzer) watch(s *site) bool {
	if s.live == nil {
		if a.series >= maxSeries {
			return false
		}
		a.series++
		s.live = &liveStats{oldest: maxTime}
	}
	return true
}

func (a *Analyzer) unwatch(s *site) {
	if s.live != nil {
		s.live = nil
		a.series--
	}
}

// visitBlocks visits all live blocks: it finds their ages at now (ns
// since Config.Start) and credits faults that wait for their block.
func (a *Analyzer) visitBlocks(now uint64) {
	for _, s := range a.sites.all {
		if s.live != nil {
			s.live.ages.Reset()
			s.live.ageBytes.Reset()
			s.live.oldest = maxTime
			s.live.doubtful = sample{}
		}
	}
	for p := range a.heaps {
		p.heap.all(func(b block) bool {
			a.visitBlock(p, b, now)
			return true
		})
		a.events.FaultUnattributed += uint64(p.faults.endPass())
	}
}

func (a *Analyzer) visitBlock(p *process, b block, now uint64) {
	s := a.sites.at(b.site)
	s.faults += p.faults.take(b.addr, b.size)
	if !a.watch(s) {
		return
	}
	s.live.oldest = min(s.live.oldest, b.time)
	if p.doubts(b) {
		s.live.doubtful.bytes += b.size
		s.live.doubtful.count++
	}
	if b.time < a.warmAt {
		return // of the warm-up
	}
	age := stats.DurationBucket(now - min(now, b.time))
	s.live.ages.Add(age, 1)
	s.live.ageBytes.Add(age, b.size)
}
