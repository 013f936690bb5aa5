package event

// Loss counts what a trace could not see, per cause. All counts are events
// unless a field says otherwise. A trace with a non-zero Lost is incomplete,
// and every output says so.
type Loss struct {
	RingFull     uint64 `json:"ring_full"`     // the ring had no room for an event
	StackFull    uint64 `json:"stack_full"`    // the ring had no room for a stack; the event came without one
	ThreadState  uint64 `json:"thread_state"`  // no per-thread state could be had in the kernel
	ReadFault    uint64 `json:"read_fault"`    // a result in the target's memory could not be read
	Missed       uint64 `json:"missed"`        // the kernel skipped a probe (recursion, nesting)
	MissedFaults uint64 `json:"missed_faults"` // page faults of any process that the kernel left out: at most so many are the targets'; not in Lost
	Abandoned    uint64 `json:"abandoned"`     // calls whose return was not seen: by an exception, longjmp, the end of their thread, or a switch of stacks; not in Lost, as most returned nothing
	Mispredicted uint64 `json:"mispredicted"`  // times that malloc returned another block than was predicted: up to 255 events of the thread before may name wrong blocks
	Truncated    uint64 `json:"truncated"`     // malformed records in a ring
	Unprobed     uint64 `json:"unprobed"`      // times that a process had no probes for a while, whatever it did then, and files with functions that are left out

	// StackUnmapped counts stacks with a frame in code that the unwinder did
	// not know yet (just loaded, or executed); not a loss of an event.
	StackUnmapped uint64 `json:"stack_unmapped"`
}

// Lost is the number of events that the trace did not see; of a time without
// probes nobody knows how many, and it counts as one.
func (l Loss) Lost() uint64 {
	return l.RingFull + l.ThreadState + l.ReadFault + l.Missed + l.Mispredicted + l.Truncated + l.Unprobed
}
