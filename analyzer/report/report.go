package report

import "github.com/memtrace/memtrace/tracer/event"

// Schema names the layout of Report in JSON.
const Schema = "memtrace.report/1"

// Report is all that memtrace knows at one instant. Sizes are bytes, times
// nanoseconds. Its JSON form is the contract with other programs: no array
// in it is ever null.
type Report struct {
	Schema   string `json:"schema"`
	Final    bool   `json:"final"`
	WindowNS uint64 `json:"window_ns"` // from the attach to this Report
	// Made says when, where and by what the Report was made; nil where that is not known.
	Made   *Made      `json:"made,omitempty"`
	Tracer TracerInfo `json:"tracer"`
	// Basis is what makes bytes a site's: FirstTouchBasis, or "" where the site allocated them.
	Basis string `json:"basis,omitempty"`
	// Sampling says by which sample the figures of blocks were estimated; nil
	// where every block was seen, and the figures are exact.
	Sampling *Sampling `json:"sampling,omitempty"`
	// Overhead is what the probes took of the targets' time, and what of the
	// trace was not seen for that; nil where no limit was set.
	Overhead *Overhead `json:"overhead,omitempty"`
	// Pressure is when blocks were sampled because events came faster than they
	// could be taken in; nil where they never did.
	Pressure *Pressure `json:"pressure,omitempty"`
	// Shed is what was not kept, to stay within --memory; nil where all was.
	Shed      *Shed     `json:"shed,omitempty"`
	Events    Events    `json:"events"`
	Stacks    Stacks    `json:"stacks"`
	Processes []Process `json:"processes"`
	Sites     []Site    `json:"sites"`
	SitesMore int       `json:"sites_omitted"` // sites left out: beyond --top, or in JSON beyond the first 10,000 unless that is given
	// SitesMoreSum is what those have together; nil where there are none, or where an older memtrace has left some out
	// without a sum.
	SitesMoreSum *SiteSum `json:"sites_omitted_sum,omitempty"`
	// By is what Groups have in common: a word of Groupings; "" where there are none.
	By         string  `json:"by,omitempty"`
	Groups     []Group `json:"groups,omitempty"`
	GroupsMore int     `json:"groups_omitted,omitempty"`
	// Regions are the call sites that map memory themselves, outside of any allocator.
	Regions     []Region `json:"regions"`
	RegionsMore int      `json:"regions_omitted"`
	// Touched is what processes have grown by while the allocator had no probes, to keep within a limit on the overhead;
	// nil where nothing is known of such a span.
	Touched  *FirstTouched `json:"first_touched,omitempty"`
	Leaks    []Leak        `json:"leaks"`
	Warnings []string      `json:"warnings"`
	// Outcome is what became of the conditions that a job set; nil where it set none.
	Outcome *Outcome `json:"outcome,omitempty"`
	Notes   []string `json:"notes,omitempty"` // what else is to be known of the figures
}

// Made is where a Report comes from. Each of its fields may be empty: not known, or left out.
type Made struct {
	At      string   `json:"at,omitempty"`      // when, by the clock of the machine that was traced: RFC 3339, UTC, to the millisecond
	Host    string   `json:"host,omitempty"`    // the name of that machine
	Version string   `json:"version,omitempty"` // of memtrace
	Command []string `json:"command,omitempty"` // memtrace's command line; --no-command-lines leaves it out
}

// MadeFormat is the layout of Made.At.
const MadeFormat = "2006-01-02T15:04:05.000Z07:00"

// TracerInfo says by which mechanisms the figures were had.
type TracerInfo struct {
	Attach string `json:"attach"` // uprobe_session, uprobe_multi, perf_cookie, perf
	Faults string `json:"faults"` // kprobe, fentry, raw_tracepoint, tracepoint, off
	Unwind string `json:"unwind"` // dwarf, fp, none
	// Tables is what the unwinding tables of all files take in the kernel, Source the
	// call frame information that they were made from, at the most at a time.
	Tables uint64 `json:"table_bytes"`
	Source uint64 `json:"table_source_bytes"`
}

// NoProbes is TracerInfo.Attach of a trace without a probe on any allocator: see Report.Basis.
const NoProbes = "page_faults"

// FirstTouchBasis: a site's live bytes are the pages that its stack was the first to touch, its allocations
// the pages that became its own that way. Who asked an allocator for the memory is not known.
const FirstTouchBasis = "first_touch"

// Origin says what a site did with the bytes that are its own: "allocated", or "first touched".
func (r *Report) Origin() string {
	if r.Basis == FirstTouchBasis {
		return "first touched"
	}
	return "allocated"
}

// NotTraced is TracerInfo.Attach of a Report on processes that were not traced.
const NotTraced = "none"

// Events counts the events of all traced processes since the attach.
type Events struct {
	Alloc      uint64 `json:"alloc"`
	Free       uint64 `json:"free"`
	Realloc    uint64 `json:"realloc"`
	Mmap       uint64 `json:"mmap"`
	Munmap     uint64 `json:"munmap"`
	Mremap     uint64 `json:"mremap"`
	FaultMinor uint64 `json:"fault_minor"`
	FaultMajor uint64 `json:"fault_major"`
	// FaultUnattributed are faults credited to no site: outside of all blocks
	// (stacks, files, allocator overhead), or dropped as too many waited.
	FaultUnattributed uint64     `json:"fault_unattributed"`
	Lost              uint64     `json:"lost"`
	LostBy            event.Loss `json:"lost_by"`
	UnmatchedFree     uint64     `json:"unmatched_free"` // frees of blocks from before the attach
	Failed            uint64     `json:"failed"`
	PoolFree          uint64     `json:"pool_free,omitempty"` // blocks that ended with their pool
	Overwritten       uint64     `json:"overwritten"`         // blocks handed out again whose free was not seen
	Repaired          uint64     `json:"repaired"`            // blocks whose free was not seen, and that the allocator's own records call free
}

// Stacks counts allocations by how their call stacks end. Its
// fields add up to all allocations and reallocations that returned a block.
type Stacks struct {
	Bottom        uint64 `json:"bottom"`                // in the outermost frame of their thread
	Deeper        uint64 `json:"deeper"`                // at the limit of --stack-depth
	Broken        uint64 `json:"broken"`                // where the walk broke off
	FPBottom      uint64 `json:"frame_pointers_bottom"` // there, too, but with a frame that was left by its frame pointer
	FramePointers uint64 `json:"frame_pointers"`        // with such a frame, and ending elsewhere
	None          uint64 `json:"none"`                  // without a stack: none taken, or lost
}

// Process is one traced process (one program image's worth: exec starts afresh).
type Process struct {
	// ID tells the entries of a trace apart, from 1 on: PIDs are given out again, and
	// the entry that sums up children stands under their parent's.
	ID         int      `json:"id"`
	PID        int      `json:"pid"`
	InnerPIDs  []int    `json:"inner_pids,omitempty"` // its IDs in PID namespaces within, the innermost last
	Comm       string   `json:"comm"`
	Exe        string   `json:"exe"`
	ExitCode   *int     `json:"exit_code,omitempty"`
	Exited     bool     `json:"exited"`
	TracedNS   uint64   `json:"traced_ns,omitempty"` // from its attach or birth to its end or this Report; 0: not known
	Execs      int      `json:"execs,omitempty"`     // how often it has replaced its program; Heap is that of the last one
	Children   int      `json:"children,omitempty"`  // so many children of PID are summed up here, as there are too many to list
	Attached   bool     `json:"attached"`            // attached while running: blocks from before are unknown
	Allocators []string `json:"allocators"`          // such as "glibc /usr/lib/x86_64-linux-gnu/libc.so.6"
	Usage      Usage    `json:"usage"`
	Heap       Heap     `json:"heap"`
	// GoHeap is what a Go program's own memory profile says; nil where it has none, or is no Go program.
	GoHeap *GoHeap `json:"go_heap,omitempty"`
	RSSBy  RSSBy   `json:"rss_by"`
	// Pools are what its pools hold by name, the largest first; empty where no
	// function of pools is traced.
	Pools     []Pool `json:"pools,omitempty"`
	PoolsMore int    `json:"pools_omitted,omitempty"` // names that were left out
	// AnonMmap says how much of RSSBy.AnonMmap Report.Regions explains.
	AnonMmap AnonMmap `json:"anon_mmap_by"`
	// Runtime says what a language's runtime uses RSSBy.AnonMmap for; nil where none is known.
	Runtime *Runtime `json:"runtime,omitempty"`
	// Unprobed says that none of its allocations is seen, as it has no allocator that
	// can be probed, such as a Go program: Heap says nothing. Mappings then tells
	// what its memory is, those with most resident bytes first; else it is empty.
	Unprobed     bool      `json:"unprobed,omitempty"`
	Mappings     []Mapping `json:"mappings"`
	MappingsMore int       `json:"mappings_omitted,omitempty"`
	// FirstTouch is how the touched pages compare with Usage; nil unless Report.Basis is FirstTouchBasis.
	FirstTouch *FirstTouch `json:"first_touch,omitempty"`
	// LeakCheck is how its memory was read for leaks; nil where it was not.
	LeakCheck *LeakCheck `json:"leak_check,omitempty"`
	// Loss is what the trace did not see of the process; nil where nothing of it was lost.
	Loss *ProcessLoss `json:"loss,omitempty"`
	// FreeWalk is which of its blocks are gone, of a process that has or had no probe on free; nil where all frees were seen.
	FreeWalk *FreeWalk `json:"free_walk,omitempty"`
	// HeapWalk is how the heap of a process that was not traced was read from
	// outside; nil where it was traced. Heap then has live blocks only.
	HeapWalk *HeapWalk `json:"heap_walk,omitempty"`
}

// FirstTouch says what of a process's resident set the touched pages explain. The first three add up to
// Usage.RSS. They are 0 until the page states were read once.
type FirstTouch struct {
	ExplainedBytes uint64 `json:"explained_bytes"` // resident pages of sites: the sum of their resident_bytes
	BeforeBytes    uint64 `json:"before_bytes"`    // resident pages that were there when the trace began
	// UnexplainedBytes are resident and nobody's: faults that were lost, pages that the kernel made present
	// without one. Below zero the process has grown between the two readings that are compared.
	UnexplainedBytes int64  `json:"unexplained_bytes"`
	SwapIns          uint64 `json:"swap_ins"`                // faults on pages that had been swapped out
	Copies           uint64 `json:"copies"`                  // pages copied at a write, after a fork or of a private file
	PagesLost        uint64 `json:"pages_lost"`              // touches that there was no room for
	ChildTouches     uint64 `json:"child_touches,omitempty"` // of an entry with Children: see FirstTouched
}

// Pool sums up the pools of one name: memory contexts, arenas. Its live blocks
// are in the process's Heap, too.
type Pool struct {
	Name      string `json:"name"`  // as the program calls them, or "of FUNCTION" for what made them
	Pools     int    `json:"pools"` // so many live
	LiveBytes uint64 `json:"live_bytes"`
	LiveCount uint64 `json:"live_count"`
}

// HeapWalk says what reading an allocator's own records from outside found.
type HeapWalk struct {
	Arenas        int    `json:"arenas"`
	SystemBytes   uint64 `json:"system_bytes"`  // what the allocator has from the kernel for its arenas, by its own count
	CoveredBytes  uint64 `json:"covered_bytes"` // of that, gone through
	SkippedBytes  uint64 `json:"skipped_bytes"` // could not be: overwritten, of others, or changing all the time
	FreeBytes     uint64 `json:"free_bytes"`    // free, or never given out
	CachedCount   uint64 `json:"cached_count"`  // freed blocks that are kept for quick reuse
	CachedBytes   uint64 `json:"cached_bytes"`
	MappedCount   uint64 `json:"mapped_count"` // blocks with a mapping of their own
	MappedBytes   uint64 `json:"mapped_bytes"`
	UnfoundCount  uint64 `json:"unfound_count"` // such that the allocator counts and that were not found
	UnfoundBytes  uint64 `json:"unfound_bytes"`
	Looks         int    `json:"looks"`         // how often the suspects were looked at between the scans
	ClearedCount  uint64 `json:"cleared_count"` // suspects that both scans found and that turned out to be in use
	ClearedBytes  uint64 `json:"cleared_bytes"`
	TookNS        uint64 `json:"took_ns"`        // the whole check
	UnlistedCount int    `json:"unlisted_count"` // arenas whose lists of freed blocks could not all be followed
}

// LeakCheck says how a process's memory was read for leaks, and what that
// cost the process.
type LeakCheck struct {
	When      string `json:"when"`       // running, stopped, before_exit, after_exit, before_exec
	Scans     int    `json:"scans"`      // that agree
	Registers bool   `json:"registers"`  // were read, too
	RootBytes uint64 `json:"root_bytes"` // memory outside of blocks that was read for pointers
	// AllocatorBytes is memory outside of blocks that is an allocator's own: its
	// records, and what was freed. It is no root. UnsureBytes, of RootBytes, lies
	// among blocks and was a root as it could not be told from blocks that were
	// not seen: what only an allocator's records or freed memory point to there
	// was taken for reachable.
	AllocatorBytes uint64 `json:"allocator_bytes"`
	UnsureBytes    uint64 `json:"unsure_bytes"`
	ReadBytes      uint64 `json:"read_bytes"` // all that was read, over all passes
	UnreadBytes    uint64 `json:"unread_bytes"`
	SwappedBytes   uint64 `json:"swapped_bytes"`
	TookNS         uint64 `json:"took_ns"`  // the last scan
	PauseNS        uint64 `json:"pause_ns"` // for which the process stood still; 0: it ran
	// LongestHoldNS is the longest call that read the process's memory or page
	// map: its mmap lock was never held for longer by one of them.
	LongestHoldNS uint64 `json:"longest_hold_ns"`
	// Reachable are the blocks that the last scan found a chain of pointers to from
	// a root, ReachableBy the same by what kind of root.
	Reachable   LeakSum     `json:"reachable"`
	ReachableBy ReachableBy `json:"reachable_by"`
}

// ReachableBy splits the reachable blocks: each counts for the first kind of roots
// that leads to it, in this order, so that it shows what only the later ones, which
// may hold remains of what was freed, lead to. Its fields add up to all.
type ReachableBy struct {
	Globals          LeakSum `json:"globals"`            // data of the program and its libraries
	ThreadLocal      LeakSum `json:"thread_local"`       // variables, control blocks, the loader's beside them
	Stacks           LeakSum `json:"stacks"`             // of threads
	Registers        LeakSum `json:"registers"`          // and blocks that were just being handed out
	Shmem            LeakSum `json:"shmem"`              // shared memory
	AnonMmap         LeakSum `json:"anon_mmap"`          // other anonymous memory, without blocks
	HeapBeforeAttach LeakSum `json:"heap_before_attach"` // glibc's heap outside of the blocks that are known
	Allocator        LeakSum `json:"allocator"`          // memory with blocks, outside of them, records too
}

// Usage is the kernel's view of a process at SampledNS.
type Usage struct {
	RSS   uint64 `json:"rss"`
	PSS   uint64 `json:"pss"`
	USS   uint64 `json:"uss"`
	Swap  uint64 `json:"swap"`
	Anon  uint64 `json:"anon"`
	File  uint64 `json:"file"`
	Shmem uint64 `json:"shmem"`
	// SampledNS is when the figures were read, since the attach; 0 means never.
	SampledNS uint64 `json:"sampled_ns"`
}

// Heap sums a process's live heap as traced.
type Heap struct {
	LiveBytes      uint64 `json:"live_bytes"`
	LiveCount      uint64 `json:"live_count"`
	PeakBytes      uint64 `json:"peak_bytes"`
	PeakAtNS       uint64 `json:"peak_at_ns"`
	AllocBytes     uint64 `json:"alloc_bytes"`
	AllocCount     uint64 `json:"alloc_count"`
	FreeCount      uint64 `json:"free_count"`
	TemporaryCount uint64 `json:"temporary_count"`
	ResidentBytes  uint64 `json:"resident_bytes"`
	UntouchedBytes uint64 `json:"untouched_bytes"`
	SwappedBytes   uint64 `json:"swapped_bytes"`
	CorrelatedNS   uint64 `json:"correlated_ns"` // when resident, untouched and swapped were read; 0 means never
	// Estimate says how near the figures are; nil where they are exact.
	Estimate *Estimate `json:"estimate,omitempty"`
}

// Sampling is how the blocks of a trace's sample were chosen.
type Sampling struct {
	Intervals []uint64 `json:"intervals"` // mean numbers of bytes between hits, in the order of their first use
	Blocks    uint64   `json:"blocks"`    // that came into the sample by chance
}

// Overhead is how a limit on the probes' cost was kept. Shares are of the
// targets' own processor time.
type Overhead struct {
	Limit float64 `json:"limit"`
	Share float64 `json:"share"` // reckoned from hits and their calibrated cost
	// LimitedShare is what the limit holds for: the same share, of targets that take less than 2 % of a processor as if
	// they took that.
	LimitedShare float64 `json:"limited_share"`
	EntryNS      float64 `json:"entry_ns"`  // cost of a call seen at its entry alone
	ReturnNS     float64 `json:"return_ns"` // and of one seen at its return, too; a record comes on top
	Mode         string  `json:"mode"`      // now: full, sampled, none, paused
	// The time since the attach that was traced in each mode. In none and while paused
	// no allocation or free was seen, and after it no block from before is known. In none it was seen who touches
	// memory first: Report.Touched.
	FullNS    uint64 `json:"full_ns"`
	SampledNS uint64 `json:"sampled_ns"`
	NoneNS    uint64 `json:"none_ns"`
	// NoneGrowthBytes is by how much the processes' RSS was greater at the end of the spans of none than at their
	// beginning, by statm, all together. What of Touched it does not explain was given back later, or in exchange for
	// memory from before.
	NoneGrowthBytes int64  `json:"none_growth_bytes"`
	PausedNS        uint64 `json:"paused_ns"`
	Spans           []Span `json:"spans"` // the latest ones, in order
}

// Span is a part of the trace in one mode.
type Span struct {
	FromNS   uint64 `json:"from_ns"` // since the attach
	ToNS     uint64 `json:"to_ns"`
	Mode     string `json:"mode"`
	Interval uint64 `json:"interval"` // of samples, bytes
}

// Estimate are the standard errors of figures that were estimated by a
// sample: about two of three times a figure is less than that far from the truth.
type Estimate struct {
	Samples      uint64 `json:"samples"`      // blocks that the figures come from, and that stand for others
	LiveSamples  uint64 `json:"live_samples"` // of those, live
	LiveBytesSE  uint64 `json:"live_bytes_se"`
	LiveCountSE  uint64 `json:"live_count_se"`
	AllocBytesSE uint64 `json:"alloc_bytes_se"`
	AllocCountSE uint64 `json:"alloc_count_se"`
	FreeCountSE  uint64 `json:"free_count_se"`
}

// LiveOf is how many sampled blocks the figures of live ones come from; 0 where e is nil.
func (e *Estimate) LiveOf() uint64 {
	if e == nil {
		return 0
	}
	return e.LiveSamples
}

// LiveBytes is the standard error of the live bytes; 0 where e is nil, as for all below.
func (e *Estimate) LiveBytes() uint64 {
	if e == nil {
		return 0
	}
	return e.LiveBytesSE
}

// LiveCount is that of the number of live blocks.
func (e *Estimate) LiveCount() uint64 {
	if e == nil {
		return 0
	}
	return e.LiveCountSE
}

// AllocBytes is that of the allocated bytes.
func (e *Estimate) AllocBytes() uint64 {
	if e == nil {
		return 0
	}
	return e.AllocBytesSE
}

// RSSBy splits Usage.RSS; its fields add up to it.
type RSSBy struct {
	HeapLive         uint64 `json:"heap_live"`          // resident bytes of traced live blocks
	HeapOverhead     uint64 `json:"heap_overhead"`      // resident heap pages that came after the attach and no live block covers
	HeapBeforeAttach uint64 `json:"heap_before_attach"` // resident heap that was mapped before the attach and no traced block covers: earlier blocks, free memory and overhead, which cannot be told apart
	AnonMmap         uint64 `json:"anon_mmap"`
	File             uint64 `json:"file"`
	Stack            uint64 `json:"stack"`
	Shmem            uint64 `json:"shmem"`
	Other            uint64 `json:"other"`
}

// Sum is the RSS that the parts explain.
func (r RSSBy) Sum() uint64 {
	return r.HeapLive + r.HeapOverhead + r.HeapBeforeAttach + r.AnonMmap + r.File + r.Stack + r.Shmem + r.Other
}

// Site is an allocation call site: all blocks of one process with one stack.
type Site struct {
	ID      int `json:"id"`
	Process int `json:"process"` // Process.ID
	PID     int `json:"pid"`
	// Basis says where the figures are from: "" the trace, go_profile a Go program's own memory profile: such a site is in no sum of
	// Process.Heap, and was not measured for residency.
	Basis          string   `json:"basis,omitempty"`
	Language       string   `json:"language,omitempty"` // go; "" where it is not known
	Function       string   `json:"function"`           // the first frame outside the allocator and its wrappers
	FunctionFrame  int      `json:"function_frame"`     // the frame of Stack that Function is; those before it are the allocator and its wrappers
	Stack          []*Frame `json:"stack"`              // innermost first, inlined frames included; sites share Frames: they must not be changed
	Truncated      bool     `json:"truncated"`
	FramePointers  bool     `json:"frame_pointers"` // some frame without call frame information was left by its frame pointer: see docs/unwinding.md
	LiveBytes      uint64   `json:"live_bytes"`
	LiveCount      uint64   `json:"live_count"`
	AllocBytes     uint64   `json:"alloc_bytes"`
	AllocCount     uint64   `json:"alloc_count"`
	FreeCount      uint64   `json:"free_count"`
	TemporaryCount uint64   `json:"temporary_count"`
	PeakLiveBytes  uint64   `json:"peak_live_bytes"`
	FreesUnseen    bool     `json:"frees_unseen,omitempty"` // its process has or had no probe on free: Process.FreeWalk names what is not exact
	ResidentBytes  uint64   `json:"resident_bytes"`
	UntouchedBytes uint64   `json:"untouched_bytes"`
	SwappedBytes   uint64   `json:"swapped_bytes"`
	Faults         uint64   `json:"faults"`
	// DoubtfulCount and DoubtfulBytes are live blocks that may have been freed:
	// events of the process were lost while they lived, and a free may be among them,
	// or the process has no probe on free (Process.FreeWalk).
	DoubtfulCount uint64      `json:"doubtful_count,omitempty"`
	DoubtfulBytes uint64      `json:"doubtful_bytes,omitempty"`
	OldestNS      uint64      `json:"oldest_ns"`      // age of the oldest live block
	GrowthBytes   int64       `json:"growth_bytes"`   // live bytes now less those of the preceding Report, if there was one
	SizeHistogram [][2]uint64 `json:"size_histogram"` // [largest size of the bucket, allocations], ascending
	// Estimate says how near the figures are; nil where they are exact.
	Estimate *Estimate `json:"estimate,omitempty"`
	// Group says which blocks these are in a process that was not traced: then
	// there is no function, no stack, and nothing is known of the past.
	Group *BlockGroup `json:"group,omitempty"`
	// MergedIDs are the IDs of sites that this one is the sum of beside its own, ascending: of the
	// same process, with stacks that print alike. No leak refers to them. PeakLiveBytes is then the
	// sum of their peaks, the most that it can have been.
	MergedIDs []int `json:"merged_ids,omitempty"`
}

// BlockGroup is blocks of one size that look alike.
type BlockGroup struct {
	Size   uint64 `json:"size"`   // that each can hold: up to 15 bytes more than was asked for, with a mapping of its own a page more
	Class  string `json:"class"`  // type, text, zeros, pointer, data: what the first words look like
	Type   string `json:"type"`   // of class type: its name
	Module string `json:"module"` // of class type: path of the file that has the type's table
}

// Frame is one function of a stack.
type Frame struct {
	Function string `json:"function"`          // demangled; "0x…" where there is no name
	Mangled  string `json:"mangled,omitempty"` // as the file has it, where that differs
	File     string `json:"file"`
	Line     int    `json:"line"`
	Module   string `json:"module"` // path of the mapped file
	BuildID  string `json:"build_id"`
	Offset   uint64 `json:"offset"` // address within the module's file image (ELF virtual address)
	Inlined  bool   `json:"inlined"`
	Language string `json:"language,omitempty"` // LanguagePython of a Python frame, whose Module is the interpreter's; "": machine code
}
