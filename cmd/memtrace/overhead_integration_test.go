//go:build integration

package main

import (
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
)

// A program that does nothing but allocate can't be traced within a few
// percent of its own time: memtrace must let go of it, and say so.
func TestOverheadIsLimited(t *testing.T) {
	c := program(t, "churn", "10", "1", "6")
	tr := attach(t, c.cmd.Process.Pid, "--max-overhead", "5%")
	tr.untilFull()
	if err := c.proceed(); err != nil {
		t.Fatal(err)
	}
	for r := tr.report(); r.Overhead.PausedNS == 0; r = tr.report() {
		if r.Final {
			t.Fatalf("never paused: %+v", *r.Overhead)
		}
	}
	r := tr.interrupt()
	if err := c.end(); err != nil {
		t.Errorf("the program: %v", err)
	}
	checkPaused(t, &r)
	if modes := modesOf(r.Overhead); !strings.HasPrefix(modes, "sampled full ") || !strings.Contains(modes, "paused") {
		t.Errorf("it went through %s", modes)
	}
}

// A program that is attached to while it does nothing but allocate is not traced in full at first.
func TestOverheadIsLimitedFromTheStart(t *testing.T) {
	c := program(t, "churn", "10", "1", "3600") // until the test's end
	if _, err := io.WriteString(c.in, "go\n"); err != nil {
		t.Fatal(err)
	}
	tr := attach(t, c.cmd.Process.Pid, "--max-overhead", "5%")
	for r := tr.report(); r.Overhead.PausedNS == 0; r = tr.report() {
		if r.Final {
			t.Fatalf("never paused: %+v", *r.Overhead)
		}
	}
	r := tr.interrupt()
	checkPaused(t, &r)
	if modes := modesOf(r.Overhead); !strings.HasPrefix(modes, "sampled ") {
		t.Errorf("it went through %s", modes)
	}
}

// checkPaused checks what a Report says of a trace that had to pause.
func checkPaused(t *testing.T, r *report.Report) {
	t.Helper()
	o := r.Overhead
	if o.Limit != 0.05 || o.EntryNS <= 0 || o.ReturnNS < o.EntryNS {
		t.Errorf("overhead: %+v", *o)
	}
	for i, s := range o.Spans {
		if s.ToNS <= s.FromNS || i > 0 && s.FromNS < o.Spans[i-1].ToNS {
			t.Errorf("span %d: %+v", i, s)
		}
	}
	if h := r.Processes[0].Heap; o.Mode == "paused" && h.LiveCount != 0 {
		t.Errorf("%d blocks are said to live, of which nothing is known since the pause", h.LiveCount)
	}
	if !slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.HasPrefix(w, "nothing was seen for ") }) {
		t.Errorf("no warning tells of the pause: %q", r.Warnings)
	}
}

func modesOf(o *report.Overhead) string {
	var modes []string
	for _, s := range o.Spans {
		modes = append(modes, s.Mode)
	}
	return strings.Join(modes, " ")
}

// A leak check of what was freed while nobody looked must not call it a leak, and a job must not pass by it.
func TestJobDoesNotPassAPause(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.json")
	cmd := memtraceCommand(t, "run", "--max-overhead", "1%", "--fail-on", "definite", "--format", "json", "--report", file, "--",
		testProgram("churn"), "run", "10", "1", "4")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() == 0 {
		t.Errorf("a job that was paused ended with %v: %s", err, out)
	}
	r := readReport(t, file)
	if r.Overhead.PausedNS == 0 || len(r.Leaks) != 0 {
		t.Errorf("paused for %d ns, %d leaks: %+v", r.Overhead.PausedNS, len(r.Leaks), r.Leaks)
	}
}

// untilFull waits for a Report that says that all is traced, as it is once nothing keeps it from that.
func (tr *tracing) untilFull() {
	for r := tr.report(); r.Overhead == nil || r.Overhead.Mode != "full"; r = tr.report() {
		if r.Final {
			tr.t.Fatalf("an idle program is never traced in full: %+v", r.Overhead)
		}
	}
}

// A program of our own is traced in full from its first instruction on.
func TestStartedProgramsBeginInFull(t *testing.T) {
	c, r := runWith(t, []string{"--max-overhead", "1000%"}, testProgram("every_function"))
	if o := r.Overhead; o == nil || modesOf(o) != "full" || r.Sampling != nil || r.Events.Alloc < c.total(t, "alloc") {
		t.Errorf("%d allocations, sampling %v, overhead %+v", r.Events.Alloc, r.Sampling, o)
	}
}

func TestModestProgramsAreTracedFully(t *testing.T) {
	c := program(t, "every_function")
	tr := attach(t, c.cmd.Process.Pid, "--max-overhead", "1000%")
	tr.untilFull()
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
