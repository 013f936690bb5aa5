package tracer

import (
	"fmt"
	"strings"

	"github.com/memtrace/memtrace/bpf"
	"github.com/memtrace/memtrace/tracer/event"
)

// counted sums a counter of the kernel's half over the CPUs.
func (k *kernelHalf) counted(cause bpf.MemtraceLoss) (sum uint64, err error) {
	var perCPU []uint64
	if err := k.coll.Maps[bpf.MemtraceMapLosses].Lookup(uint32(cause), &perCPU); err != nil {
		return 0, fmt.Errorf("read the loss counters: %w", err)
	}
	for _, n := range perCPU {
		sum += n
	}
	return sum, nil
}

// losses sums the kernel's counters, and adds the runs of our programs that
// the kernel itself left out.
func (k *kernelHalf) losses() (event.Loss, error) {
	var l event.Loss
	for cause, to := range map[bpf.MemtraceLoss]*uint64{
		bpf.MemtraceLossLOSS_RING_FULL:    &l.RingFull,
		bpf.MemtraceLossLOSS_STACK_FULL:   &l.StackFull,
		bpf.MemtraceLossLOSS_THREAD_STATE: &l.ThreadState,
		bpf.MemtraceLossLOSS_READ_FAULT:   &l.ReadFault,
		bpf.MemtraceLossLOSS_ABANDONED:    &l.Abandoned,
		bpf.MemtraceLossLOSS_MISPREDICTED: &l.Mispredicted,
		bpf.MemtraceLossLOSS_UNMAPPED:     &l.StackUnmapped,
	} {
		n, err := k.counted(cause)
		if err != nil {
			return l, err
		}
		*to = n
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for name, prog := range k.coll.Programs {
		stats, err := prog.Stats()
		if err != nil {
			return l, fmt.Errorf("read the counters of %s: %w", name, err)
		}
		if strings.HasPrefix(name, "fault_") || strings.HasPrefix(name, "touch_") {
			l.MissedFaults += stats.RecursionMisses
		} else {
			l.Missed += stats.RecursionMisses
		}
	}
	return l, nil
}
