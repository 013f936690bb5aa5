package input

// Touches says what became of the pages that a process has touched, by one reading of its page states: for a
// trace without probes (event.FaultTouch), or one that had none for some time. It comes before the Memory of the same
// reading and before any further events. All ranges are of whole pages, and belong to what was known then.
type Touches struct {
	PID     uint32
	Now     uint64        // ns, CLOCK_MONOTONIC
	Gone    []Range       // touched, and neither present nor swapped now
	Swapped []Range       // touched, and swapped out since the reading before
	Before  []Range       // present when the trace began
	Along   []TouchedWith // present without a fault of their own

	// Explained is what of the resident set lies in touched pages, BeforeBytes what was there before: bytes.
	Explained, BeforeBytes uint64
}

// TouchedWith is memory that came with a page next to it, which a site has touched: the rest of a huge page,
// or the pages of a file that the kernel maps around a fault.
type TouchedWith struct {
	Range
	// Site is as the analyzer numbers it. In a trace that has probes at other times it is which page that is, as an
	// int32: how many pages it lies beyond the first of Range, or before it.
	Site uint32
}

func (Touches) input() {}
