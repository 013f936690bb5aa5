//go:build integration

package main

import (
	"syscall"
	"testing"
	"time"

	"github.com/memtrace/memtrace/analyzer/report"
)

// standStill has memtrace stand still while the program runs, for two seconds
// at least, and returns the last Report.
func (c *child) standStill(t *testing.T, flags ...string) report.Report {
	t.Helper()
	// Not held, as a thread that begins would wait for memtrace; without faults, which the program does not count.
	tr := attach(t, c.cmd.Process.Pid, append(flags, "--hold=false", "--faults", "off")...)
	return tr.stopBeside(c)
}

// stopBeside does so, and ends the trace and the program.
func (tr *tracing) stopBeside(c *child) report.Report {
	t := tr.t
	t.Helper()
	over := time.After(2 * time.Second)
	if err := tr.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := c.proceed(); err != nil {
		t.Fatal(err)
	}
	<-over
	if err := tr.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	r := tr.interrupt()
	if err := c.end(); err != nil {
		t.Errorf("the program: %v", err)
	}
	return r
}

// fillsRings are pairs of a malloc and a free that fill the rings of two CPUs more
// than twice. On machines with more a thread moves between few of them.
const fillsRings = "600000"

// The C library allocates for a thread, which the program doesn't count.
const ofLibc = 4

// While memtrace stands still, the rings fill up. What they can't take must be
// counted to the last event, and the Report must say that the live heap is not exact.
func TestStoppedTracerCountsItsLosses(t *testing.T) {
	t.Parallel()
	c := program(t, "churn", "3", "1", "0", fillsRings)
	r := c.standStill(t, "--back-pressure", "0")
	calls := c.total(t, "alloc") + c.total(t, "free")
	e := r.Events
	if e.Lost == 0 {
		t.Fatalf("nothing was lost of %d calls, though memtrace stood still", calls)
	}
	if got := e.Alloc + e.Free + e.Lost; got < calls || got > calls+ofLibc {
		t.Errorf("%d allocations, %d frees and %d lost are %d, the program made %d calls", e.Alloc, e.Free, e.Lost, got, calls)
	}
	if e.LostBy.RingFull != e.Lost {
		t.Errorf("lost: %+v", e.LostBy)
	}
	// The loop gets the same address each time: what a lost free left behind ends with the next allocation.
	if h := r.Processes[0].Heap; h.LiveCount > ofLibc {
		t.Errorf("%d blocks are said to live, the program has at most one", h.LiveCount)
	}
}

// With back-pressure the kernel's half samples by itself before a ring is full:
// nothing is lost, and every call is counted.
func TestStoppedTracerSamples(t *testing.T) {
	t.Parallel()
	c := program(t, "churn", "3", "1", "0", fillsRings)
	r := c.standStill(t)
	calls := c.total(t, "alloc") + c.total(t, "free")
	e, p := r.Events, r.Pressure
	if e.Lost != 0 {
		t.Errorf("lost of %d calls: %+v", calls, e.LostBy)
	}
	if got := e.Alloc + e.Free; got < calls || got > calls+ofLibc {
		t.Errorf("%d allocations and %d frees are %d, the program made %d calls", e.Alloc, e.Free, got, calls)
	}
	if p == nil {
		t.Fatal("the Report does not say that blocks were sampled")
	}
	if p.Phases < 1 || p.Phases > 3 || p.LeftOut.Alloc < calls/4 || p.LeftOut.Realloc != 0 {
		t.Errorf("pressure: %+v", *p)
	}
	for i, s := range p.Spans {
		if s.ToNS <= s.FromNS || i > 0 && s.FromNS < p.Spans[i-1].ToNS || s.Mode != "sampled" || s.Interval != 64<<10 {
			t.Errorf("phase %d: %+v", i, s)
		}
	}
	if p.SampledNS < uint64(time.Second) {
		t.Errorf("sampled for %v, less than it takes to believe in calm", time.Duration(p.SampledNS))
	}
	if h := r.Processes[0].Heap; h.Estimate == nil || h.LiveCount > ofLibc {
		t.Errorf("%d blocks are said to live, the program has at most one; estimate %+v", h.LiveCount, h.Estimate)
	}
}
