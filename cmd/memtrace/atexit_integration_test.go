//go:build integration

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/report"
)

// ends are the ways in which leak_exits ends, and its exit code then.
var ends = map[string]int{
	"return": 3, "exit": 3, "quick_exit": 3, "_exit": 3, "thread_exit": 3, "thread_exit_group": 3, "last_thread": 0,
	"abort": 128 + 6, "thread_abort": 128 + 6, "segv": 128 + 11, "term": 128 + 15, "children": 3,
}

// TestVerdictsAtEachEnd compares the verdicts at a program's end, and at those
// of its children, with what the program says that it lost.
func TestVerdictsAtEachEnd(t *testing.T) {
	t.Parallel()
	for how, code := range ends {
		for _, when := range []string{exitAfter, exitBefore} {
			t.Run(how+"/"+when, func(t *testing.T) {
				t.Parallel()
				file := filepath.Join(t.TempDir(), "report")
				out, got := runLeaks(t, "run", "--leaks", "--at-exit", when, "--format", "json", "--report", file, "--",
					testProgram("leak_exits"), "run", how)
				if got != code {
					t.Errorf("exit code %d, want %d", got, code)
				}
				checkLost(t, readReport(t, file), string(out), when)
			})
		}
	}
}

// TestBlockedSignalIsSaid: a program that blocks all signals cannot be stopped
// as it calls exit; it is checked afterwards, and that is said.
func TestBlockedSignalIsSaid(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "report")
	out, _ := runLeaks(t, "run", "--leaks", "--at-exit", exitBefore, "--format", "json", "--report", file, "--",
		testProgram("leak_exits"), "run", "blocked")
	r := readReport(t, file)
	checkLost(t, r, string(out), exitAfter)
	if check := r.Processes[0].LeakCheck; check.When != string(analyzer.CheckAfterExit) || !strings.Contains(fmt.Sprint(r.Warnings), "blocks SIGURG") {
		t.Errorf("checked %s, warnings %q", check.When, r.Warnings)
	}
}

func readReport(t *testing.T, file string) *report.Report {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r report.Report
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	return &r
}

// checkLost compares verdicts by process with the lines "lost PID SIZE WHEN".
func checkLost(t *testing.T, r *report.Report, said, when string) {
	t.Helper()
	want, got, pids := make(map[int]sum), make(map[int]sum), make(map[int]int)
	for line := range strings.Lines(said) {
		var pid int
		var size uint64
		var found string
		if n, _ := fmt.Sscanf(line, "lost %d %d %s", &pid, &size, &found); n == 3 && (found == "always" || found == when) {
			want[pid] = sum{want[pid].count + 1, want[pid].bytes + size}
		}
	}
	for _, s := range r.Sites {
		pids[s.ID] = s.PID
	}
	for _, l := range r.Leaks {
		if l.Kind != "growing" && l.Kind != "old" {
			pid := pids[l.Site]
			got[pid] = sum{got[pid].count + l.Count, got[pid].bytes + l.Bytes}
		}
	}
	if len(want) == 0 || len(want) != len(r.Processes) {
		t.Errorf("the program speaks of %d processes, the Report of %d", len(want), len(r.Processes))
	}
	for pid, w := range want {
		if got[pid] != w {
			t.Errorf("process %d: %+v lost, want %+v", pid, got[pid], w)
		}
	}
	for _, p := range r.Processes {
		if c := p.LeakCheck; c == nil || c.Scans != 1 || !c.Registers || c.ReadBytes == 0 || c.LongestHoldNS == 0 || c.PauseNS == 0 {
			t.Errorf("process %d: leak_check %+v", p.PID, c)
		}
	}
}

// attachedExit is a program in attach mode under memtrace, such as leak_exits.
type attachedExit struct {
	program, tracer *exec.Cmd
	in              io.Writer
	said            *bytes.Buffer
	reports         *json.Decoder
}

func startAttached(t *testing.T, how string, args ...string) *attachedExit {
	t.Helper()
	return attachToProgram(t, exec.Command(testProgram("leak_exits"), "attach", how), args...)
}

// attachToProgram starts a program that waits for a line, and attaches to it.
func attachToProgram(t *testing.T, program *exec.Cmd, args ...string) *attachedExit {
	t.Helper()
	a := &attachedExit{program: program, said: new(bytes.Buffer)}
	var err error
	if a.in, err = a.program.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	a.program.Stdout = a.said
	if err := a.program.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.program.Process.Kill() })
	pid := strconv.Itoa(a.program.Process.Pid)
	a.tracer = memtraceCommand(t, append([]string{"-p", pid, "-i", "100ms", "--leaks", "--format", "json"}, args...)...)
	a.tracer.Stderr = os.Stderr
	out, err := a.tracer.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := a.tracer.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.tracer.Process.Kill() })
	a.reports = json.NewDecoder(out)
	a.next(t) // it is attached
	return a
}

func (a *attachedExit) next(t *testing.T) (r report.Report) {
	t.Helper()
	if err := a.reports.Decode(&r); err != nil {
		t.Fatal(err)
	}
	return r
}

// proceed has the program run to its end.
func (a *attachedExit) proceed(t *testing.T) {
	t.Helper()
	if _, err := io.WriteString(a.in, "go\n"); err != nil {
		t.Fatal(err)
	}
}

// code is the program's exit code, as a shell gives it.
func (a *attachedExit) code() int {
	_ = a.program.Wait() // the state tells how it ended
	return exitCodeOf(a.program.ProcessState)
}

// TestVerdictsAtTheEndOfAttached is the same for processes that ran already.
func TestVerdictsAtTheEndOfAttached(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"return", "_exit", "thread_exit_group", "abort", "term", "children"} {
		for _, when := range []string{exitAfter, exitBefore} {
			t.Run(how+"/"+when, func(t *testing.T) {
				t.Parallel()
				a := startAttached(t, how, "--at-exit", when, "--fail-on", "definite")
				a.proceed(t)
				var r report.Report
				for !r.Final {
					r = a.next(t)
				}
				if code := a.code(); code != ends[how] {
					t.Errorf("the program's exit code is %d, want %d", code, ends[how])
				}
				_ = a.tracer.Wait()
				if code := a.tracer.ProcessState.ExitCode(); code != exitFound {
					t.Errorf("memtrace's exit code is %d, want %d", code, exitFound)
				}
				checkLost(t, &r, a.said.String(), when)
			})
		}
	}
}

// TestKilledMemtraceLeavesTheProgramRunning: whenever memtrace is killed, the
// program that it watches runs on to its own end.
func TestKilledMemtraceLeavesTheProgramRunning(t *testing.T) {
	t.Parallel()
	for _, when := range []string{exitAfter, exitBefore} {
		a := startAttached(t, "children", "--at-exit", when)
		if err := a.tracer.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = a.tracer.Wait()
		a.proceed(t)
		if code := a.code(); code != ends["children"] {
			t.Errorf("--at-exit %s: the program's exit code is %d, want %d", when, code, ends["children"])
		}
		if n := strings.Count(a.said.String(), "lost "); n != 10 {
			t.Errorf("--at-exit %s: the program and its children said that they lost %d blocks, want 10: they did not come to their ends", when, n)
		}
	}
}

// TestInterruptedMemtraceLetsGo: Ctrl-C ends the watch, and the program runs on
// without a tracer.
func TestInterruptedMemtraceLetsGo(t *testing.T) {
	t.Parallel()
	a := startAttached(t, "return")
	if err := a.tracer.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	for !a.next(t).Final {
	}
	if err := a.tracer.Wait(); err != nil {
		t.Errorf("memtrace: %v", err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", a.program.Process.Pid))
	if err != nil || !strings.Contains(string(status), "TracerPid:\t0\n") {
		t.Errorf("%v, status:\n%s", err, status)
	}
	a.proceed(t)
	if code := a.code(); code != ends["return"] {
		t.Errorf("the program's exit code is %d", code)
	}
}
