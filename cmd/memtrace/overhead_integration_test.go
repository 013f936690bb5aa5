//go:build integration

package main

import (
	"errors"
	"fmt"
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
	for r := tr.report(); unprobed(r.Overhead) == 0; r = tr.report() {
		if r.Final {
			t.Fatalf("never without probes: %+v", *r.Overhead)
		}
	}
	r := tr.interrupt()
	if err := c.end(); err != nil {
		t.Errorf("the program: %v", err)
	}
	checkPaused(t, &r)
	modes := modesOf(r.Overhead)
	if !strings.HasPrefix(modes, "sampled full ") || !strings.Contains(modes, withoutProbes(t)) {
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
	for r := tr.report(); unprobed(r.Overhead) == 0; r = tr.report() {
		if r.Final {
			t.Fatalf("never without probes: %+v", *r.Overhead)
		}
	}
	r := tr.interrupt()
	checkPaused(t, &r)
	if modes := modesOf(r.Overhead); !strings.HasPrefix(modes, "sampled ") {
		t.Errorf("it went through %s", modes)
	}
}

// unprobed is for how long the program had no probes.
func unprobed(o *report.Overhead) uint64 { return o.NoneNS + o.PausedNS }

// withoutProbes is the mode in which a program is traced that allocates too fast, and touches little memory.
func withoutProbes(t *testing.T) string {
	if refusesTouch(t) {
		return "paused"
	}
	return "none"
}

// checkPaused checks what a Report says of a trace that had to do without probes.
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
	if h := r.Processes[0].Heap; o.Mode == withoutProbes(t) && h.LiveCount != 0 {
		t.Errorf("%d blocks are said to live, of which nothing is known since then", h.LiveCount)
	}
	if !slices.ContainsFunc(r.Warnings, func(w string) bool {
		return strings.HasPrefix(w, "nothing was seen for ") || strings.HasPrefix(w, "the allocator had no probes for ")
	}) {
		t.Errorf("no warning tells of it: %q", r.Warnings)
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
		t.Errorf("a job that had no probes for some time ended with %v: %s", err, out)
	}
	r := readReport(t, file)
	if unprobed(r.Overhead) == 0 || len(r.Leaks) != 0 {
		t.Errorf("without probes for %d ns, %d leaks: %+v", unprobed(r.Overhead), len(r.Leaks), r.Leaks)
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

// touchedFirst sums the bytes of the sites whose memory a function has touched first while the allocator had no probes.
func touchedFirst(r *report.Report, function string) (bytes uint64) {
	if r.Touched == nil {
		return 0
	}
	for _, s := range r.Touched.Sites {
		if slices.ContainsFunc(s.Stack, func(f *report.Frame) bool { return f.Function == function }) {
			bytes += s.Bytes
		}
	}
	return bytes
}

// A program that allocates too fast even for samples grows meanwhile: page faults tell by what, and once the load is over
// all is seen again.
func TestGrowthUnderLoadIsKnown(t *testing.T) {
	if refusesTouch(t) {
		return
	}
	c := program(t, "grow_busily")
	cmd := memtraceCommand(t, "-p", c.pid(), "--format", "json", "-i", "100ms", "--max-overhead", "1%", "--top", "0")
	check := playing(t, cmd)
	tr := startTracingBy(t, cmd)
	tr.untilFull()
	if err := c.proceed(); err != nil {
		t.Fatal(err)
	}
	for tr.growsInOneSpan(c) {
		// The probes were back for a look meanwhile. A later round has more time, as the looks come less and less often.
	}
	if _, err := io.WriteString(c.in, "stop\n"); err != nil {
		t.Fatal(err)
	}
	tr.untilMode("full")
	r := tr.interrupt()
	modes := modesOf(r.Overhead)
	if !strings.HasPrefix(modes, "sampled full ") || !strings.HasSuffix(modes, " full") || r.Overhead.NoneNS == 0 {
		t.Errorf("it went through %s", modes)
	}
	if !slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.HasPrefix(w, "the allocator had no probes for ") }) {
		t.Errorf("no warning tells of it: %q", r.Warnings)
	}
	check("input.Pause", "input.Touches")
}

// growsInOneSpan has a program grow while it is traced without probes, and compares. again: the probes came back
// before all of it was told.
func (tr *tracing) growsInOneSpan(c *child) (again bool) {
	tr.t.Helper()
	begun := tr.untilMode("none")
	was, grown := c.touched(tr.t).Touched, make(chan error, 1)
	go func() { grown <- c.proceed() }()
	for {
		r := tr.report() // memtrace must not have to wait for us
		select {
		case err := <-grown:
			if err != nil {
				tr.t.Fatal(err)
			}
			return tr.checkGrowth(&begun, was, c.touched(tr.t).Touched)
		default:
		}
		if r.Final {
			tr.t.Fatal("the trace has ended")
		}
	}
}

// checkGrowth waits until memtrace has told of what came since a Report.
func (tr *tracing) checkGrowth(begun *report.Report, was, is map[string]uint64) (again bool) {
	tr.t.Helper()
	const patience = 20 // Reports
	for left := patience; ; left-- {
		r := tr.report()
		if !sameSpan(begun, &r) {
			return true
		}
		var wrong []string
		for function, bytes := range is {
			want, got := bytes-was[function], touchedFirst(&r, function)-touchedFirst(begun, function)
			if !within2Percent(got, want) {
				wrong = append(wrong, fmt.Sprintf("%s touched %d bytes first, want %d", function, got, want))
			}
		}
		if len(wrong) == 0 || left == 0 {
			for _, text := range wrong {
				tr.t.Error(text)
			}
			if h := r.Processes[0].Heap; h.LiveCount != 0 {
				tr.t.Errorf("%d blocks are said to live, of which nothing is known", h.LiveCount)
			}
			return false
		}
	}
}

// untilMode waits for a Report that is made in a mode.
func (tr *tracing) untilMode(mode string) report.Report {
	for {
		r := tr.report()
		if r.Overhead != nil && r.Overhead.Mode == mode {
			return r
		}
		if r.Final {
			tr.t.Fatalf("never %s: %+v", mode, *r.Overhead)
		}
	}
}

// sameSpan reports whether two Reports were made in one span of a mode.
func sameSpan(a, b *report.Report) bool {
	last := func(r *report.Report) report.Span { return r.Overhead.Spans[len(r.Overhead.Spans)-1] }
	return last(a).FromNS == last(b).FromNS && last(a).Mode == last(b).Mode
}
