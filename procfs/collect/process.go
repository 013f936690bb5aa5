package collect

import (
	"time"

	"github.com/memtrace/memtrace/procfs"
)

// Identity tells a process from any other of this boot, before it and after
// it under the same PID, unless both began within the same clock tick of 10 ms.
// (A Collector that holds the directory of the first one tells them apart even
// then, and starts anew.)
type Identity struct {
	PID       int
	StartTime uint64 // clock ticks since boot, as procfs.Stat.StartTime
}

// Process is what is known of one process. Sizes are bytes. Strings may be
// kept; they never change.
type Process struct {
	Identity
	// From /proc/PID/stat, always there.
	PPID         int
	Comm         string
	State        byte // R, S, D, Z, T, t, I, …
	KernelThread bool
	Priority     int // as the kernel shows it: 20 + nice, or negative where real-time
	Nice         int
	Threads      uint64
	VSize        uint64 // VIRT
	// RSS is that of smaps_rollup where this pass read Memory; else of statm,
	// where it read Shared; else of stat. The latter two are the kernel's own
	// counters, which may lag by 64 pages a thread, since Linux 6.2 by 32 a CPU
	// or more; statm's are exact since Linux 6.16.
	RSS    uint64
	User   time.Duration
	System time.Duration
	MinFlt uint64
	MajFlt uint64

	// Each of these is for use where the Outcome of its field is Ok.
	UID      uint32 // effective
	Cmdline  string // arguments, with blanks between; empty for kernel threads
	Cgroup   string // path in the memory controller's hierarchy
	OOMScore int
	// InnerPIDs are its IDs in PID namespaces within the reader's, from the
	// outermost on; none where it is in the reader's.
	InnerPIDs []int
	Shared    uint64 // SHR: the file and shmem part of RSS, by the same counters or by the walk
	// Memory is from smaps_rollup: see PSS, USS and Swap.
	Memory procfs.Rollup
	// MemoryAt is when Memory was read: it may be older than the pass.
	MemoryAt time.Time
	// Behind says that the process has changed since MemoryAt, and that the
	// budget did not allow another walk yet.
	Behind bool
	// VmSwap is from status, which is read where Memory was asked for and cannot
	// be read: swap without shmem.
	VmSwap uint64

	outcomes [fieldCount]procfs.Outcome
	vmSwap   procfs.Outcome // of VmSwap
}

// CPU is the processor time used, in user mode and in the kernel.
func (p *Process) CPU() time.Duration { return p.User + p.System }

// Outcome says what became of a single field.
func (p *Process) Outcome(f Fields) procfs.Outcome {
	if i := f.index(); i < fieldCount {
		return p.outcomes[i]
	}
	return procfs.NotRead
}

// PSS is the proportional set size: each page divided by the number of its users.
func (p *Process) PSS() (uint64, procfs.Outcome) { return p.Memory.Pss, p.Outcome(Memory) }

// USS is what no other process maps: what would be free if this one ended.
func (p *Process) USS() (uint64, procfs.Outcome) { return p.Memory.USS(), p.Outcome(Memory) }

// Swap is what is swapped out; where Memory may not be read, that of status,
// which leaves shmem out.
func (p *Process) Swap() (uint64, procfs.Outcome) {
	if o := p.Outcome(Memory); o.Ok() || !p.vmSwap.Ok() {
		return p.Memory.Swap, o
	}
	return p.VmSwap, p.vmSwap
}

// Age is how old Memory is at the time of a pass.
func (p *Process) Age(at time.Time) time.Duration { return at.Sub(p.MemoryAt) }
