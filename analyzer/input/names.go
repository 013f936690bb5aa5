package input

import "github.com/memtrace/memtrace/tracer/event"

// Instant says that a Report is made of what is known now: blocks are as old as they are at Now, and growth is
// since the Instant before. Names and PoolName may still follow, before the Report is read.
type Instant struct {
	Now uint64 // ns, CLOCK_MONOTONIC
}

// Names are what a stack's code is called, as an answer to Analyzer.Unnamed or UnnamedOf. Those of code of
// which it is not known yet what it lies in hold for the Instant alone, and are asked for again.
type Names struct {
	Stack uint64 // as the analyzer numbers it
	// PID and ID say which stack that is, where the numbers of an analyzer are not known: after a gap in a recording.
	PID  uint32
	ID   event.StackID
	Last bool // nobody will know more: they hold for good
	// Frames are innermost first; one address gives several where functions were inlined, and always at
	// least one. Stacks may share Frames.
	Frames []*Frame
}

// A Frame is a function in a call stack: see report.Frame.
type Frame struct {
	Function string // demangled; "0x…" where there is no name
	Mangled  string // as the file has it, where that differs
	File     string
	Line     int
	Module   string // path of the mapped file; "": not known yet
	BuildID  string
	Offset   uint64 // address within the module's file image (ELF virtual address)
	Inlined  bool
	Language string // "python" of a Python frame; "": machine code
}

// PoolName is what a process calls a pool, as an answer to Analyzer.UnnamedPools. Name is "" where there is
// nothing to be read.
type PoolName struct {
	PID  uint32
	Pool uint64 // its address
	Text uint64 // where the name was read, as an event told; 0: in the pool's own record
	Name string
}

func (Instant) input()  {}
func (Names) input()    {}
func (PoolName) input() {}
