package tracer

import (
	"fmt"

	"github.com/memtrace/memtrace/bpf"
)

// ProcessLoss is how many of one process's events were lost in the kernel's half.
type ProcessLoss struct {
	PID         uint32 // thread group ID
	Count       uint64
	First, Last uint64 // ns, CLOCK_MONOTONIC
}

// ProcessLosses lists the processes that lost events. Their counts add up to
// Loss's RingFull, ThreadState, ReadFault and Mispredicted, unless more than 4,096 did.
func (t *Tracer) ProcessLosses() (out []ProcessLoss, err error) {
	var pid uint32
	var b bpf.MemtraceBlame
	all := t.kernel.coll.Maps[bpf.MemtraceMapBlamed].Iterate()
	for all.Next(&pid, &b) {
		out = append(out, ProcessLoss{pid, b.Count, b.First, b.Last})
	}
	if err := all.Err(); err != nil {
		return out, fmt.Errorf("read which processes lost events: %w", err)
	}
	return out, nil
}
