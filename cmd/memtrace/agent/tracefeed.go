package agent

import "github.com/memtrace/memtrace/analyzer/report"

// A memtrace that an agent has started (StartedByServe) with probes traces what an alert asks for: it takes Orders, a line
// each, until an empty line, and writes a TraceFeed once it traces, and another one at its end. When stdin ends, it ends in
// good order, without a leak check.

// TraceFeed is a line of what such a memtrace tells.
type TraceFeed struct {
	Refused []Refusal    `json:"refused,omitempty"` // of those that were ordered
	Ended   *TraceResult `json:"ended,omitempty"`
}

// Refusal is a process that could not be traced.
type Refusal struct {
	PID int    `json:"pid"`
	Why string `json:"why"`
}

// TraceResult is what a trace came to.
type TraceResult struct {
	TimeOver    bool     `json:"time_over,omitempty"` // else its processes have ended, or it was ended
	Early       bool     `json:"early,omitempty"`     // a signal, or the end of its orders, has ended it
	Found       Findings `json:"found"`
	RecordError string   `json:"record_error,omitempty"`
}

// Findings are what a trace has found. Sizes are bytes.
type Findings struct {
	// Of the service's processes as the trace began, Untraced are those beyond the 16 with most memory, and Refused
	// could not be traced. The agent knows.
	Processes int `json:"processes"`
	Untraced  int `json:"untraced_processes,omitempty"`
	Refused   int `json:"refused_processes,omitempty"`

	Checked int         `json:"checked_processes"` // whose memory was searched for leaks
	Leaks   []LeakFound `json:"leaks"`             // by kind, the worst first; those without a verdict last
	Top     *SiteFound  `json:"top,omitempty"`     // where most of the worst kind was allocated, or else most of what lives
	Lost    uint64      `json:"lost_events,omitempty"`
	// Shed is what was not kept, to stay within the trace's memory. Unrecorded are events that were seen, and that the
	// recording lacks, as the disk was too slow or it has come to its largest size.
	Shed          *report.Shed `json:"shed,omitempty"`
	Unrecorded    uint64       `json:"unrecorded_events,omitempty"`
	RecordingFull bool         `json:"recording_full,omitempty"`
	// How long events came faster than the trace could take them in, and a sample of them was taken.
	PressedSeconds float64 `json:"pressed_seconds,omitempty"`
	// How long all allocations were seen, a sample of them, page faults alone, and nothing, to keep within max_overhead.
	// The first look, a fraction of a second, is not among them.
	FullSeconds    float64 `json:"full_seconds"`
	SampledSeconds float64 `json:"sampled_seconds,omitempty"`
	NoneSeconds    float64 `json:"none_seconds,omitempty"`
	PausedSeconds  float64 `json:"paused_seconds,omitempty"`
}

// LeakFound is the sum of leaks of a kind.
type LeakFound struct {
	Kind   string `json:"kind"` // definite, indirect, possible, growing, old
	Bytes  uint64 `json:"bytes"`
	Blocks uint64 `json:"blocks"`
}

// SiteFound is a call site. Bytes and Blocks are those of the kind of leak, or what lives where that is empty.
type SiteFound struct {
	Function string `json:"function"`
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
	Kind     string `json:"kind,omitempty"`
	Bytes    uint64 `json:"bytes"`
	Blocks   uint64 `json:"blocks"`
}

// maxTraceFeed bounds a line, bytes.
const maxTraceFeed = 1 << 20
