package report

// Shed is what the trace did not keep, to stay within its memory. Sums of processes
// have all of it but Blocks.
type Shed struct {
	Stacks      uint64 `json:"stacks"`      // that had no room
	Allocations uint64 `json:"allocations"` // counted under [all other sites]
	Blocks      uint64 `json:"blocks"`      // not tracked: what became of them is not known
}

// Pressure is what was done about events that came faster than they could be
// taken in: for a while, blocks were sampled.
type Pressure struct {
	Phases    int    `json:"phases"`
	SampledNS uint64 `json:"sampled_ns"` // all phases that Spans lists
	Now       bool   `json:"now"`        // a phase is under way
	// LeftOut are the calls that were not recorded in all phases; those of
	// Events have them in.
	LeftOut LeftOut `json:"left_out"`
	Spans   []Span  `json:"spans"` // the latest phases, in order
}

// LeftOut are calls that were seen, counted, and not recorded: exact figures.
type LeftOut struct {
	Alloc   uint64 `json:"alloc"`
	Free    uint64 `json:"free"`
	Realloc uint64 `json:"realloc"`
}

// LossSpan is a time in which events of a process were lost.
type LossSpan struct {
	FromNS uint64 `json:"from_ns"` // since the attach; the loss began then at the earliest
	ToNS   uint64 `json:"to_ns"`   // the last loss
	Events uint64 `json:"events"`
}

// Repaired are blocks that were freed unseen, as the allocator's own records
// tell; they have been taken out of the live heap.
type Repaired struct {
	Count uint64 `json:"count"`
	Bytes uint64 `json:"bytes"`
}

// ProcessLoss is what the trace did not see of a process, and what that means.
type ProcessLoss struct {
	Events uint64     `json:"events"`
	Spans  []LossSpan `json:"spans"`
	// Doubtful are live blocks from before the last loss: the free of each may have been lost.
	DoubtfulCount uint64   `json:"doubtful_count"`
	DoubtfulBytes uint64   `json:"doubtful_bytes"`
	Repaired      Repaired `json:"repaired"`
}
