// Package ladder builds memtraces whose BPF programs end after one of their
// steps: what one costs more than the one before is what its last step costs.
//
// The programs' sources know nothing of it. A copy of them gets the ends, each
// at a line that must be there once, and is compiled once for each rung. So the
// production objects stay as they are, byte for byte, and a source that has moved on
// fails the build, and the test here, instead of measuring something else.
package ladder

// A Call is what a rung's steps belong to.
type Call int

const (
	None  Call = iota // the probes alone
	Alloc             // an allocation; frees have empty programs
	Free              // a free; allocations have empty programs
	Both              // all of memtrace
)

// A Rung is memtrace with programs that end after a step.
type Rung struct {
	Name string // of its memtrace, and of the value of LADDER in the sources
	Step string // what it does more than the rung before
	Of   Call
	// Before is the rung that it adds a step to; "" for the lowest.
	Before string
}

// Names of rungs that others than the table use.
const (
	AllTraps    = "all_traps"
	Floor       = "floor"
	Stack       = "send"
	AllocSubmit = "submit"
	FreeState   = "free_state"
	FreeSubmit  = "free_submit"
	Whole       = "whole" // the production memtrace, which is not built anew
)

// Rungs lists all, from the empty programs on.
func Rungs() []Rung {
	list := []Rung{
		{AllTraps, "empty programs: entry and return of allocations, entry of frees", None, ""},
		{Floor, "empty programs, entries alone: **the floor**", None, ""},
	}
	list = append(list, steps(Alloc, [][2]string{
		{"lookup", "who calls: the thread's state, and what is known of the probe"},
		{"arguments", "the arguments, and whether the call is one within another"},
		{"predict", "its result, read from the allocator's free list"},
		{"return", "the return's trap, where the result is not predicted"},
		{"choose", "what came of it, and whether it is to be recorded"},
		{"walk", "the stack's frames"},
		{"hash", "their hash"},
		{"seen", "whether the tracer has that stack"},
		{Stack, "walking those anew that it has not, and sending them"},
		{"reserve", "a line of the event ring"},
		{"fill", "the clock, and the record"},
		{AllocSubmit, "submitting it: its last word, waking the reader, who reads meanwhile"},
	})...)
	list = append(list, steps(Free, [][2]string{
		{"free_lookup", "who calls, as above"},
		{FreeState, "the address, and whether the call is one within another or of a block left out"},
		{"free_reserve", "a line of the event ring"},
		{"free_fill", "the clock, and the record"},
		{FreeSubmit, "submitting it"},
	})...)
	return append(list, Rung{Whole, "both: memtrace as it is", Both, Floor})
}

// steps chains rungs that all stand on the floor.
func steps(of Call, named [][2]string) (list []Rung) {
	before := Floor
	for _, n := range named {
		list = append(list, Rung{Name: n[0], Step: n[1], Of: of, Before: before})
		before = n[0]
	}
	return list
}
