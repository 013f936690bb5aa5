package snapshot

import (
	"time"

	"github.com/memtrace/memtrace/procfs"
)

// Snapshot is the memory of a machine's processes, taken in one pass.
type Snapshot struct {
	Machine    Machine
	Begin, End time.Time // between them lie all readings
	Components []Component
	Processes  []Process // ascending by PID
	Changes    Changes
	// Kernel threads and zombies have no memory; they are only counted.
	KernelThreads, Zombies int
	Warnings               []string
	Pages                  *Pages // nil where it was not asked for
}

// Machine is what a snapshot tells about the machine as a whole.
type Machine struct {
	Hostname string
	Kernel   string // release, such as "6.1.0-50-amd64"
	Arch     string // as uname -m, such as "x86_64"
	BootID   string // /proc/sys/kernel/random/boot_id
	Memtrace string // version of the program that took it
	PageSize uint64 // bytes
	// ClockTicks per second, in which ID.StartTime counts.
	ClockTicks uint64
	CPUs       int
	// Averaged: the kernel knows how often large folios are mapped only on
	// average (CONFIG_NO_PAGE_MAPCOUNT), so that PSS and USS are estimates.
	Averaged bool
	// Before and After are /proc/meminfo at Begin and at End, in its order.
	Before, After []Figure
	// Pressure is /proc/pressure/memory: percentages times 100, and totals in
	// microseconds. Empty where the kernel has none.
	Pressure []Figure
}

// Figure is a named number; in meminfo, bytes, but for counts of huge pages.
type Figure struct {
	Name  string
	Value uint64
}

// Find returns the figure of a name.
func Find(figures []Figure, name string) (uint64, bool) {
	for _, f := range figures {
		if f.Name == name {
			return f.Value, true
		}
	}
	return 0, false
}

// ID is the identity of a process on one boot of a machine: PIDs are reused,
// PIDs with start times are not.
type ID struct {
	PID       int
	StartTime uint64 // clock ticks since boot
}

// Process is one process.
type Process struct {
	ID
	PPID    int
	UID     uint32
	User    string // name of UID where the snapshot was taken, or the number
	Comm    string
	Cmdline []string // empty where it is unknown, see CmdlineAccess
	Cgroup  string   // path of its memory cgroup
	State   byte     // as ps shows it: R, S, D, …
	Threads uint64

	// Access says whether Usage and Uses were read.
	Access Access
	Why    string // the error, where Access is not Known
	// CmdlineAccess and CgroupAccess say the same of these.
	CmdlineAccess, CgroupAccess Access

	Usage Usage
	Uses  []Use // in the order of Snapshot.Components

	// Resident is what statm gave just before the mappings were read, and
	// ResidentEnd when everything else had been: free of privileges and walks,
	// yet the kernel batches these counters.
	Resident, ResidentEnd uint64
	HaveEnd               bool          // false where the process had ended by then
	ReadAt                time.Duration // when its mappings were read, from Begin on
	// Hold is for how much processor time the target's mmap lock was held at
	// most: that of reading its mappings. Predicted is what had been expected.
	Hold, Predicted time.Duration
}

// Usage is the memory of a whole process.
type Usage struct {
	Size uint64 // mapped address space
	RSS  uint64 // the sum of the components' RSS, to the byte
	PSS  uint64
	USS  uint64
	Swap uint64
	Anon uint64 // the part of RSS that no file backs, copies of file pages included
	// Hugetlb is preallocated huge pages, which are in no RSS.
	Hugetlb uint64
	// Tables is the page tables' own memory, from status.
	Tables uint64
	// PSSSummed: PSS is the sum over the mappings, each of which the kernel
	// rounds down to 1 KiB, not the total that it rounds once.
	PSSSummed bool
}

// Component is what memory can belong to: a file, the heap, a stack, a shared
// segment. Processes share components.
type Component struct {
	Kind procfs.Kind
	// Name is the path or the kernel's word: "[heap]", "[anon]", "/usr/bin/cat".
	Name string
	// Device (major<<20 | minor) and Inode tell apart files of one name, as
	// in two containers; 0 where no file is behind the mapping.
	Device, Inode uint64
}

// Use is how much of a component a process uses.
type Use struct {
	Component int // index into Snapshot.Components
	Mappings  int
	Size      uint64
	RSS       uint64
	PSS       uint64 // each mapping's is rounded down to 1 KiB
	USS       uint64
	Swap      uint64
	Anon      uint64
	Hugetlb   uint64
}

// Changes are the processes that came and went between Begin and End.
type Changes struct {
	Came, Went []Passing
	// Uncounted: the list of processes could not be read a second time.
	Uncounted bool
}

// Passing is a process that a snapshot saw only one end of.
type Passing struct {
	ID
	Comm string
}

// Access says whether something could be read.
type Access uint8

const (
	// Known: it was read.
	Known Access = iota
	// NoPermission: it needs more privileges.
	NoPermission
	// NotSupported: this kernel doesn't have it.
	NotSupported
	// OverBudget: reading it would have stalled the process for longer than allowed.
	OverBudget
	// OutOfTime: the time limit was reached first.
	OutOfTime
	// Failed: anything else; Why says what.
	Failed
	accesses
)

var accessWords = [accesses]string{"known", "no permission", "not supported", "over the stall budget", "out of time", "failed"}

// String returns it in words, such as "no permission".
func (a Access) String() string {
	if a < accesses {
		return accessWords[a]
	}
	return "unknown"
}

// Moved is by how much the process's resident set changed between its own
// reading and End; 0 where that isn't known.
func (p *Process) Moved() int64 {
	if !p.HaveEnd {
		return 0
	}
	return int64(p.ResidentEnd) - int64(p.Resident)
}

// Took is how long the snapshot took.
func (s *Snapshot) Took() time.Duration { return s.End.Sub(s.Begin) }
