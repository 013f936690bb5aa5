package input

import "github.com/memtrace/memtrace/tracer/event"

// Loss is what the tracer could not see since the trace began: each replaces the one before.
type Loss struct{ event.Loss }

// ProcessLoss says that so many more events of a process were lost, from First to Last. It is ignored where
// the process is not known: Analyzer.Knows tells, and whether to come again later.
type ProcessLoss struct {
	PID         uint32
	Events      uint64
	First, Last uint64 // ns, CLOCK_MONOTONIC
}

// LeftOut are the calls that the tracer has counted and not recorded since the trace began: each replaces
// the one before. It is for a tracer that counts them all (Config.Counted).
type LeftOut struct {
	Alloc, Free, Realloc uint64
}

// Pause says that no allocation or free is seen from now on, until events come again. What lives then is
// not known any more: a block may be freed unseen and its memory given out again. So the blocks are dropped
// from what lives, without counting as freed; should their frees be seen later, they match nothing.
type Pause struct{}

// Window closes an observation window: what each site holds then is a step in the trend of its live bytes.
// Windows come at even intervals.
type Window struct {
	Now uint64 // ns, CLOCK_MONOTONIC
}

func (Loss) input()        {}
func (ProcessLoss) input() {}
func (LeftOut) input()     {}
func (Pause) input()       {}
func (Window) input()      {}
