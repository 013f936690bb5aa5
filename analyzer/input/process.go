package input

// ProcessInfo describes a traced process.
type ProcessInfo struct {
	PID       uint32
	InnerPIDs []int  // its IDs in PID namespaces within the initial one
	UID       uint32 // that it acts as
	Comm      string
	Exe       string
	Attached  bool   // attached while running: blocks from before are unknown
	Probed    uint64 // ns, CLOCK_MONOTONIC: since when all of its calls are seen; 0: they may not be
	// FreesUnseen: it has no probe on free, and FreeWalks tell which blocks are gone (--probes allocs).
	FreesUnseen bool
	Unprobed    bool     // none of its allocations is seen: it has no allocator that can be probed
	Allocators  []string // such as "glibc /usr/lib/x86_64-linux-gnu/libc.so.6"
	GoHeap      bool     // its Go code allocates from a heap that is not seen, beside the one that is
	Untraced    []string // functions that may allocate, by their names, and are not probed, as --alloc-fn takes them
}

// Started makes a process known; its events are ignored before. For one that is known and has not exited it
// is no more than a Described. A child that shares its parent's memory becomes a process when it execs.
type Started struct{ ProcessInfo }

// Described updates the description of a process that is known, even if it has exited, or of a child that
// shares its parent's memory. It is ignored for others.
type Described struct{ ProcessInfo }

// ExitCode says how a process ended: its exit code, or 128 plus the number of the signal that killed it.
// That it ended is an event.
type ExitCode struct {
	PID  uint32
	Code int
}

func (Started) input()   {}
func (Described) input() {}
func (ExitCode) input()  {}
