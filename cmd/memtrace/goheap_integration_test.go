//go:build integration

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/analyzer/report"
)

// goProgram compiles a program of the Go reader's tests. They are not among the test programs, which the VMs have, too.
func goProgram(t *testing.T, name string, args ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), name)
	source := filepath.Join("..", "..", "analyzer", "goheap", "testdata", name, "main.go")
	cmd := exec.Command("go", append(append([]string{"build", "-o", out}, args...), source)...)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, text)
	}
	return out
}

// goSite is the site of a Report whose function this is.
func goSite(r *report.Report, function string) *report.Site {
	for i := range r.Sites {
		if s := &r.Sites[i]; s.Basis == report.GoProfile && s.Function == function {
			return s
		}
	}
	return nil
}

// A stripped Go program shows its own samples: what grew, by which function, and the same from a recording.
func TestGoProgramShowsItsSamples(t *testing.T) {
	t.Parallel()
	const each, blocks = 512 << 10, 200 // grow's, at a time
	c := exec.Command(goProgram(t, "program", "-ldflags=-s -w"))
	c.Env = append(os.Environ(), "GOGC=off", "RATE=1")
	p := spawn(t, c)
	p.lineWith("ready")
	p.say("gc") // before it, garbage counts, too
	p.lineWith("done")
	file := filepath.Join(t.TempDir(), "go.memtrace")
	m := startTracing(t, []int{p.pid()}, "-d", "600s", "--top", "0", "-o", file, "--fail-on", "growth>1TiB/s")
	p.say("grow")
	p.lineWith("done")
	eventually(t, "what grew is seen", func() bool { s := goSite(m.report(), "main.grow"); return s != nil && s.LiveCount == blocks })
	const garbage = 64 << 10 // of what lived before, which may be gone
	r := m.interrupt()
	s, g := goSite(r, "main.grow"), processOf(t, r, p.pid()).GoHeap
	if s.LiveBytes != blocks*each || s.Language != "go" || s.Estimate != nil || s.Stack[0].Line == 0 || !strings.HasSuffix(s.Stack[0].File, "main.go") {
		t.Errorf("%+v, in %+v", s, s.Stack[0])
	}
	if g.FoundBy != "code" || g.Rate != 1 || g.GrowthBytes < blocks*each-garbage || g.LiveBytes < blocks*each {
		t.Errorf("%+v", g)
	}
	if r.Outcome == nil || r.Outcome.Rules[0].Status != report.RulePassed {
		t.Errorf("outcome %+v", r.Outcome)
	}
	text, err := memtraceCommand(t, "report", file, "--format", "json", "--top", "0").Output()
	if err != nil {
		t.Fatal(err)
	}
	again := parseReport(t, string(text))
	if from := goSite(again, "main.grow"); from == nil || from.LiveBytes != s.LiveBytes || from.ID != s.ID {
		t.Errorf("from the recording: %+v, live %+v", from, s)
	}
}

// interruptFailing ends a trace whose job fails.
func interruptFailing(m *running) *report.Report {
	m.t.Helper()
	m.signal(unix.SIGINT)
	for {
		if r := m.report(); r.Final {
			<-m.exited
			if m.err == nil {
				m.t.Error("memtrace ended as if all were well")
			}
			return r
		}
	}
}

// A condition on growth fails where a Go program grows faster.
func TestGoProgramFailsOnGrowth(t *testing.T) {
	t.Parallel()
	p := spawn(t, exec.Command(goProgram(t, "program")))
	p.lineWith("ready")
	m := startTracing(t, []int{p.pid()}, "-d", "600s", "--fail-on", "growth>1KiB/s")
	last := uint64(0)
	for range 4 {
		p.say("grow")
		p.lineWith("done")
		eventually(t, "it has grown", func() bool {
			now := processOf(t, m.report(), p.pid()).GoHeap.LiveBytes
			grown := now > last
			last = max(last, now)
			return grown
		})
	}
	r := interruptFailing(m)
	if r.Outcome == nil || r.Outcome.Rules[0].Status != report.RuleFailed {
		t.Errorf("outcome %+v", r.Outcome)
	}
}

// A program whose profile is off says so with the remedy, and no condition on its growth passes.
func TestGoProgramWithoutAProfile(t *testing.T) {
	t.Parallel()
	p := spawn(t, exec.Command(goProgram(t, "plain")))
	p.lineWith("ready")
	m := startTracing(t, []int{p.pid()}, "-d", "600s", "--fail-on", "growth>1TiB/s")
	r := interruptFailing(m)
	if g := processOf(t, r, p.pid()).GoHeap; g == nil || !strings.Contains(g.Problem, "import net/http/pprof") {
		t.Errorf("%+v", g)
	}
	if r.Outcome == nil || !strings.Contains(strings.Join(r.Outcome.Problems, "\n"), "how its heap grows is not known") {
		t.Errorf("outcome %+v", r.Outcome)
	}
}

// The leaks command says what a Go program holds instead of what it lost, and fails.
func TestGoProgramHasNoLeaks(t *testing.T) {
	t.Parallel()
	p := spawn(t, exec.Command(goProgram(t, "program")))
	p.lineWith("ready")
	p.say("grow")
	p.lineWith("done")
	var text bytes.Buffer
	cmd := memtraceCommand(t, "leaks", "-p", strconv.Itoa(p.pid()))
	cmd.Stderr = &text
	if err := cmd.Run(); err == nil || !strings.Contains(text.String(), "allocated by main.grow") || !strings.Contains(text.String(), "still reachable") {
		t.Errorf("%v: %s", err, &text)
	}
}
