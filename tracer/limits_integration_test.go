//go:build integration

package tracer

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/memtrace/memtrace/bpf"
	"github.com/memtrace/memtrace/tracer/event"
)

// Small rings take a fraction of what comes: the rest is counted, event by event.
func TestFullRingIsCounted(t *testing.T) {
	const pairs = 100_000
	p := start(t, nil, "churn", "1", "1", "0", "100000")
	_, events, _, loss := trace(t, Config{RingBytes: 64 << 10, Faults: FaultOff, Unwind: UnwindFP, StackDepth: 8}, p)
	p.finish()
	seen := uint64(0)
	for _, e := range events {
		if e.Kind == event.Alloc || e.Kind == event.Free {
			seen++
		}
	}
	if loss.RingFull == 0 || seen+loss.RingFull < 2*pairs {
		t.Errorf("%d events seen and %+v lost, want %d together at least", seen, loss, 2*pairs)
	}
	if extra := seen + loss.RingFull - 2*pairs; extra > 1000 { // what libc does, and the life of processes elsewhere
		t.Errorf("%d events seen and %d lost: %d more than there were", seen, loss.RingFull, extra)
	}
}

// A map that is full is an error that names it, and leaves the process unprobed.
func TestFullMapIsAnError(t *testing.T) {
	tr, err := New(Config{Faults: FaultOff, Unwind: UnwindFP})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tr.Close() }()
	targets := tr.kernel.coll.Maps[bpf.MemtraceMapTargets]
	for pid := uint32(1 << 30); ; pid++ {
		if err := targets.Update(pid, uint32(1), ebpf.UpdateNoExist); err != nil {
			break
		}
	}
	p := start(t, nil, "every_function")
	err = tr.Attach(p.cmd.Process.Pid, discover(t, p.cmd.Process.Pid))
	if err == nil || !strings.Contains(err.Error(), "register process") {
		t.Errorf("the error is %v, want one that says what could not be registered", err)
	}
	p.answer()
	p.finish()
}
