package agent

import (
	"github.com/memtrace/memtrace/analyzer/report"
)

// StartedByServe is set in the environment of a memtrace that traces a service for an agent: it takes an Order a line
// on stdin, and writes a Feed a line to stdout. When stdin ends, it ends in good order, its recording too.
const StartedByServe = "MEMTRACE_STARTED_BY_SERVE"

// LateExit is the exit code of such a memtrace that has not ended in good order in time: its recording lacks its end.
const LateExit = 75

// Order has a process traced.
type Order struct {
	PID       int    `json:"pid"`
	StartTime uint64 `json:"start_time"` // clock ticks since boot: another process under the PID is not meant
}

// Feed is what a tracer has to tell. The first comes once it can trace, and has nothing in it yet; the others come
// after each interval. Figures are since the tracer began, sizes bytes.
type Feed struct {
	WindowNS uint64 `json:"window_ns"`
	Exe      string `json:"exe"`     // the file that the first of them runs
	Watched  []int  `json:"watched"` // IDs of the processes that are watched now, children that they made included
	Listed   int    `json:"listed"`  // processes that there ever were: after 1,024, children are not watched
	Missed   uint64 `json:"missed"`  // children that came after those: they are not watched
	Faults   uint64 `json:"faults"`  // page faults that were seen
	Lost     uint64 `json:"lost"`    // that were not
	// Grown, Before and Unexplained divide the resident set of the processes as they were last read: pages first
	// touched by a stack that is known, those from before the trace, and the rest, which may be below zero.
	Grown       uint64 `json:"grown"`
	Before      uint64 `json:"before"`
	Unexplained int64  `json:"unexplained"`

	CPUNS       uint64 `json:"cpu_ns"`   // processor time of the tracer
	Resident    uint64 `json:"resident"` // its own resident memory
	Recorded    int64  `json:"recorded"` // size of its recording
	RecordError string `json:"record_error,omitempty"`
	Refused     []int  `json:"refused,omitempty"` // processes since the last Feed that could not be traced

	// Frames and Stacks are those that no Feed before had; each is numbered in the order in which it came, from 0 on.
	Frames []report.Frame `json:"frames,omitempty"`
	Stacks []FeedStack    `json:"stacks,omitempty"`
	Sites  []StackFigures `json:"sites,omitempty"` // those that changed
}

// FeedStack is a call stack.
type FeedStack struct {
	Frames    []int `json:"frames"`   // numbers, innermost first
	Function  int   `json:"function"` // index of the first that is neither the allocator's nor a wrapper of it
	Truncated bool  `json:"truncated,omitempty"`
}

// StackFigures are what the pages came to that one stack touched first, over all processes of the tracer.
type StackFigures struct {
	Stack int `json:"stack"` // OtherStacks: of all that have no number
	// Live are its own now; Touched ever became its own, and never falls.
	LiveBytes    uint64 `json:"live_bytes"`
	LiveCount    uint64 `json:"live_count"`
	TouchedBytes uint64 `json:"touched_bytes"`
	TouchedCount uint64 `json:"touched_count"`
}

const (
	// MaxStacks is how many stacks a service has figures of their own for: further ones are summed up.
	MaxStacks = 2000
	// OtherStacks stands for those.
	OtherStacks = -1
	// MaxFeed bounds a line, bytes.
	MaxFeed = 32 << 20
)
