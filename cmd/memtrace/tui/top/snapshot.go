package top

import (
	"context"
	"slices"
	"time"
)

// Source reads the machine.
type Source interface {
	// Read takes a Snapshot with at least what want names. It is called by
	// one goroutine at a time. A part that cannot be read is no error: its
	// figures say so.
	Read(ctx context.Context, want Want) (*Snapshot, error)
}

// Want says what a view needs, so that nothing is read for nobody.
type Want struct {
	View View
	PID  int // whose threads or mappings
	// Start is when that process began, as Process.Start, so that another one of its
	// PID is not taken for it; 0: whichever has the PID now.
	Start uint64
	// Shown are the columns on the screen; nil: all of them.
	Shown []string
}

// Shows reports whether a column of the view is wanted.
func (w *Want) Shows(column string) bool {
	return w.Shown == nil || slices.Contains(w.Shown, column)
}

// Snapshot is the machine at one instant, as far as Want asked for it. It does
// not change once it is taken. Sizes are bytes.
type Snapshot struct {
	At        time.Time
	Host      string
	Machine   Machine
	Processes []Process
	Books     []Entry // View Memory
	Nodes     []Node  // View NUMA
	Groups    []Group // View Groups
	// Components and how many processes could not be looked into.
	Components []Component
	Of         Subject // whose Threads or Mappings
	Threads    []Thread
	Mappings   []Mapping
	Notes      []string // on the figures of the view that was wanted
	Cost       Cost
}

// Machine is what the head of the screen shows.
type Machine struct {
	Total, Available    Figure
	SwapTotal, SwapUsed Figure
	// Pressure is the share of time, in hundredths of a percent over the last
	// ten seconds, that some or all tasks waited for memory (PSI).
	PressureSome, PressureFull Figure
}

// Process is one process.
type Process struct {
	PID, PPID int
	Inner     []int  // its IDs in PID namespaces of its own, from the outermost on
	Start     uint64 // clock ticks since boot: with PID, its identity
	Name      string // comm
	Command   string // the arguments, or Name in brackets
	Program   string // what it is an instance of
	User      string
	State     byte
	Kernel    bool // a kernel thread
	Cgroup    string
	Priority  Figure
	Nice      Figure
	Threads   Figure
	OOMScore  Figure
	CPUTime   Figure // ns, user and system
	Running   Figure // ns since it started

	Virt, RSS, Shared, PSS, USS, Swap Figure
	// RSSThen is RSS when PSS and USS were read, by the same walk.
	RSSThen Figure

	// Space is equal in processes that share one address space (CLONE_VM
	// without CLONE_THREAD), and 0 in all others.
	Space uint64
	// OnNode is how much of it lies on each node; View NUMA.
	OnNode []Figure
	// Age says how long ago PSS, USS and Swap were read, and Behind that
	// something has changed since, which the stall budget left unread.
	Age    time.Duration
	Behind bool

	// What History adds.
	CPU      Figure // hundredths of a percent of one core
	DeltaPSS Figure
	Trend    []int64 // RSS, oldest first
}

// withinRSS is a part of RSS as it can be now: one of an earlier walk may be more than is resident by now.
func (p *Process) withinRSS(f Figure) Figure {
	if f.Known() && p.RSS.Known() && f.N > p.RSS.N {
		f.N, f.Stale = p.RSS.N, true
	}
	return f
}

func (p *Process) id() ID { return ID{PID: p.PID, Start: p.Start} }

// Subject is the process whose threads or mappings are shown.
type Subject struct {
	PID   int
	Start uint64
	Name  string
	// Problem says why there is nothing to show, or is empty.
	Problem string
}

// Thread is one thread of a process. Threads share their process's memory:
// there is no PSS of a thread.
type Thread struct {
	TID                   int
	Name                  string
	State                 byte
	Priority, Nice        Figure
	CPUTime               Figure
	Running               Figure // ns since it started
	CPU                   Figure // by History
	MinorFaults           Figure
	MajorFaults           Figure
	Processor             Figure // it last ran on
	Node                  Figure // of that processor
	StackSize, StackPlace Figure // of the VMA its stack pointer is in
	StackName             string
}

// Entry is a line of the machine's books. Those at depth 0 add up to the
// machine's memory, and those below an entry add up to it.
type Entry struct {
	Name      string
	Depth     int
	Size      Figure
	Source    string // where the figure is from
	Remainder bool   // what nothing explains; may be negative
}

// Node is a NUMA node.
type Node struct {
	ID                                         int
	Total, Free, Used, File, Anon, Shmem, Slab Figure
	HugeTotal, HugeFree                        Figure
}

// Group is a cgroup with a memory controller.
type Group struct {
	Path      string
	Container string // what runs in it, where its name tells
	Depth     int
	Processes Figure
	Current   Figure
	Max, High Figure // None: no limit
	Peak      Figure
	Working   Figure // Current less inactive file pages, as Kubernetes counts
	Anon      Figure
	File      Figure
	Kernel    Figure
	Swap      Figure
	Some      Figure // PSI, hundredths of a percent over 10 s
	Full      Figure
	OOM       Figure // times the limit was hit and nothing could be reclaimed
	Killed    Figure // processes that the OOM killer took
	PSS       Figure // sum of its processes'
	USS       Figure // sum of its processes'
	Shares    bool   // some pages are shared, with processes outside or among themselves
	UnknownIn int    // processes in it that could not be read
}

// Component is a file, or a kind of memory, across all processes.
type Component struct {
	Name          string
	Kind          string
	RSS, PSS, USS Figure
	Swap          Figure
	Processes     int
}

// Mapping is one VMA of a process.
type Mapping struct {
	Start, End    uint64
	Perms         string
	Kind          string
	Name          string
	Offset        uint64
	RSS, PSS, USS Figure
	Dirty         Figure
	Swap          Figure
	Huge          Figure
	Locked        Figure
}

// Cost is what taking the Snapshot cost.
type Cost struct {
	CPU         time.Duration // of memtrace itself, since the last one
	Wall        time.Duration // that CPU was spent over; 0: unknown
	Walked      int           // processes whose page tables were walked
	Unchanged   int           // left out as nothing had changed
	Deferred    int           // left out to stay within the stall budget
	LongestHold time.Duration // of one target's mmap lock, predicted or measured
	Oldest      time.Duration // age of the oldest figure shown
}
