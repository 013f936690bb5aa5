//go:build integration

package main

import (
	"syscall"
	"testing"
	"time"
)

// While memtrace stands still, the rings fill up. What they can't take must be
// counted to the last event, and the Report must say that the live heap is not exact.
func TestStoppedTracerCountsItsLosses(t *testing.T) {
	c := program(t, "churn", "3", "1", "4")
	tr := attach(t, c.cmd.Process.Pid)
	stopped := make(chan error, 1)
	go func() {
		time.Sleep(500 * time.Millisecond) // of the loop's four seconds
		err := tr.cmd.Process.Signal(syscall.SIGSTOP)
		time.Sleep(2 * time.Second)
		if err == nil {
			err = tr.cmd.Process.Signal(syscall.SIGCONT)
		}
		stopped <- err
	}()
	if err := c.proceed(); err != nil {
		t.Fatal(err)
	}
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	r := tr.interrupt()
	if err := c.end(); err != nil {
		t.Errorf("the program: %v", err)
	}
	calls := c.total(t, "alloc") + c.total(t, "free")
	e := r.Events
	if e.Lost == 0 {
		t.Fatalf("nothing was lost of %d calls, though memtrace stood still for half of them", calls)
	}
	// The C library allocates for the thread, which the program doesn't count.
	const ofLibc = 4
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
