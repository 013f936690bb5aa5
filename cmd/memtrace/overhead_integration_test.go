//go:build integration

package main

import "testing"

// A program that does nothing but allocate can't be traced within a few
// percent of its own time: memtrace must let go of it, and say so.
func TestOverheadIsLimited(t *testing.T) {
	c := program(t, "churn", "10", "1", "6")
	tr := attach(t, c.cmd.Process.Pid, "--max-overhead", "5%")
	if err := c.proceed(); err != nil {
		t.Fatal(err)
	}
	for r := tr.report(); r.Overhead == nil || r.Overhead.PausedNS == 0; r = tr.report() {
		if r.Overhead == nil {
			t.Fatal("the Report does not tell of the overhead")
		}
		if r.Final {
			t.Fatalf("never paused: %+v", *r.Overhead)
		}
	}
	r := tr.interrupt()
	if err := c.end(); err != nil {
		t.Errorf("the program: %v", err)
	}
	o := r.Overhead
	if o.Limit != 0.05 || o.Mode != "paused" || o.EntryNS <= 0 || o.ReturnNS < o.EntryNS {
		t.Errorf("overhead: %+v", *o)
	}
	if len(o.Spans) < 3 || o.Spans[0].Mode != "full" || o.Spans[len(o.Spans)-1].Mode != "paused" {
		t.Errorf("spans: %+v", o.Spans)
	}
	for i, s := range o.Spans {
		if s.ToNS <= s.FromNS || i > 0 && s.FromNS < o.Spans[i-1].ToNS {
			t.Errorf("span %d: %+v", i, s)
		}
	}
	if h := r.Processes[0].Heap; h.LiveCount != 0 {
		t.Errorf("%d blocks are said to live, of which nothing is known since the pause", h.LiveCount)
	}
	if len(r.Warnings) == 0 {
		t.Error("no warning tells of the pause")
	}
}

func TestModestProgramsAreTracedFully(t *testing.T) {
	c := program(t, "every_function")
	tr := attach(t, c.cmd.Process.Pid, "--max-overhead", "1000%")
	if err := c.proceed(); err != nil {
		t.Fatal(err)
	}
	r := tr.interrupt()
	if err := c.end(); err != nil {
		t.Errorf("the program: %v", err)
	}
	if want := c.total(t, "alloc"); r.Events.Alloc != want || r.Sampling != nil || r.Overhead.Mode != "full" {
		t.Errorf("%d allocations, want %d; sampling %v, overhead %+v", r.Events.Alloc, want, r.Sampling, r.Overhead)
	}
}
