package probe

import (
	"debug/elf"
	"os"

	"github.com/memtrace/memtrace/tracer/event"
)

// Object is a mapped file that contains an allocator, and the functions in it
// to probe.
type Object struct {
	Path    string // as the target's maps show it, without " (deleted)"
	Major   uint32 // of the device, as the target's maps show it
	Minor   uint32
	Inode   uint64
	BuildID string        // hexadecimal; empty where the file has none
	Soname  string        // DT_SONAME; empty where the file has none
	Family  Family        // whose malloc it has; where it has but a prefixed one, whose that is
	Machine elf.Machine   // EM_X86_64 or EM_AARCH64
	Source  string        // what named its functions: "exported symbols", "symbol table", "debug file PATH", ".gnu_debugdata", "DWARF"
	Static  bool          // an executable that uses no dynamic loader
	Go      bool          // built by the Go toolchain
	WithGo  bool          // such a file is mapped beside it, or it is one itself: see Discover
	Ptraces bool          // it calls ptrace
	Checks  bool          // it has LeakSanitizer's check, which takes its own process under ptrace
	Tracing Tracing       // of the program that maps it: see Discover
	Others  []string      // functions of it that may allocate, by their names, and are not probed
	Probes  []Probe       // sorted by Entry; empty where the file has no allocator
	Skipped []Skip        // functions left out, each with the reason
	Left    []string      // debug files of it that were not used, and why
	Unseen  []Skip        // of those the ones whose returns can't be seen without harm; what they hand out isn't seen either
	Marks   []StaticProbe // USDT probes that are about memory and not among Probes
	Text    []Range       // executable mappings in the target, ascending

	// File is the file itself: attach through /proc/self/fd/N, which reaches
	// it even where its path is gone, replaced or in another mount namespace.
	// Inspect leaves it nil.
	File *os.File

	stripped         bool // no function symbols at all
	needsCLibrary    bool // it asks for one by name
	allocatesNothing bool // a static program that is known to have no allocator
}

// Probe is one function to probe.
type Probe struct {
	Name        string // most telling name of the function
	Family      Family // whose function it is
	Shape       Shape
	Entry       uint64 // file offset of the function's first instruction
	Offset      uint64 // file offset of the instruction to probe
	Args        [3]Reg // where Shape's arguments are at Offset, in Shape's order; of a Malloc that leaves small alignments to another one, the alignment after the size
	SPDelta     uint32 // bytes by which the stack has grown between Entry and Offset; 0 where Shape.HasReturn
	Cost        Cost
	Instruction string // disassembly of the instruction at Offset, for people

	Change   event.Change // of a PoolChange: what it does
	Variable int64        // of a PoolCurrent: where the variable lies, in bytes from the instruction at Offset

	Cache ThreadCache // of a Malloc whose results can be predicted

	Throws bool // it throws an exception where it fails

	// KeepsReturn says that there must be no return probe, as neither an exception nor a switch of stacks passes one:
	// calls return by the instructions at Returns (file offsets, ascending), or by the return of another probed function that it jumps to.
	KeepsReturn bool
	Returns     []uint64
	HandsTo     []Handed // those functions
	// OpenEnded says of a Release that it may return where that isn't seen: by a jump through a pointer, or to a
	// function whose return isn't probed.
	OpenEnded bool
	// KeepsFrame says of a function that keeps its return address that it stores that in frame records alone, by
	// which a call in progress is found (arm64).
	KeepsFrame bool

	Static    [3]StaticArg // of a MarkAlloc: block, size, weight; of a MarkFree: block
	Semaphore uint64       // of those: file offset of the counter that switches the probe on; 0: none

	// MayForward names another probed function to which this Free or Munmap
	// passes some blocks on, so that the release of one block may be seen
	// twice, in immediate succession and in one thread. It is empty for all
	// others: functions that always pass on are not probed.
	MayForward string
}

// Handed is a probed function that another one jumps on to.
type Handed struct {
	Name   string
	Family Family // "": of another file, nobody knows which
	Shape  Shape
}

// Skip is an allocation function that is not probed.
type Skip struct {
	Name   string
	Reason string
}

// Range is an executable mapping: [Start, End) are virtual addresses in the
// target, Offset is where in the file Start lies.
type Range struct {
	Start, End, Offset uint64
}

// Close closes File. It may be called twice.
func (o *Object) Close() error {
	if o.File == nil {
		return nil
	}
	f := o.File
	o.File = nil
	return f.Close()
}

// CloseAll closes the files of all objects.
func CloseAll(objects []Object) {
	for i := range objects {
		_ = objects[i].Close() // opened for reading: nothing can be lost
	}
}
