//go:build integration

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
)

// TestLeaksOfAProgramThatIsReplaced: what a program has lost when it executes
// another in its place is found, of each program once, and so it is in a child.
func TestLeaksOfAProgramThatIsReplaced(t *testing.T) {
	t.Parallel()
	program, err := filepath.Abs(testProgram("leak_exec"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		how, script string
		want        uint64
		warned      bool
	}{
		{"execv", `exec "$0" 3 5`, 8, false},
		{"execvp", `exec "$0" 3 5`, 8, false},
		{"threads", `exec "$0" 3 5`, 8, false},
		{"another", `exec "$0" 3 5`, 8, false},
		{"child", `"$0" 4; "$0" 2; exit 0`, 6, false},
		{"syscall", `exec "$0" 3`, 0, true},
	} {
		t.Run(c.how, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "report")
			check := []string{"--leaks"}
			if c.warned { // a condition that is met is no reason to say nothing of what it did not look at
				check = append(check, "--fail-on", "definite")
			}
			args := append(append([]string{"run"}, check...), "--format", "json", "--report", file, "--",
				"sh", "-c", c.script, program)
			cmd := memtraceCommand(t, args...)
			cmd.Env = append(cmd.Env, "HOW="+strings.Fields(c.how)[0], "PATH=/nowhere:"+filepath.Dir(program)+":"+os.Getenv("PATH"))
			if _, code := finishLeaks(t, cmd); code != 0 {
				t.Errorf("exit code %d", code)
			}
			checkReplaced(t, readReport(t, file), c.want, c.warned)
		})
	}
}

// TestLeaksOfAStaticProgramThatIsReplaced: its exec and exit are its own, not those of the C library of the
// dynamic program that it was before.
func TestLeaksOfAStaticProgramThatIsReplaced(t *testing.T) {
	t.Parallel()
	b := build{dir: t.TempDir(), flags: []string{"-static", "-pthread"}}
	program := b.compile(t, "leak_exec")
	for _, when := range []string{exitAfter, exitBefore} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "report")
			_, code := runLeaks(t, "run", "--leaks", "--at-exit", when, "--format", "json", "--report", file, "--",
				"sh", "-c", `"$0" 4; exec "$0" 3 5`, program)
			if code != 0 {
				t.Errorf("exit code %d", code)
			}
			checkReplaced(t, readReport(t, file), 12, false)
		})
	}
}

// TestLeaksOfAnAttachedProgramThatIsReplaced is the same for one that ran already.
func TestLeaksOfAnAttachedProgramThatIsReplaced(t *testing.T) {
	t.Parallel()
	program, err := filepath.Abs(testProgram("leak_exec"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", `echo "ready $$"; read go; exec "$0" 3 5`, program)
	cmd.Env = append(os.Environ(), "HOW=another") // the first thread goes, to which probes are tied
	a := attachToProgram(t, cmd)
	a.proceed(t)
	var r report.Report
	for !r.Final {
		r = a.next(t)
	}
	checkReplaced(t, &r, 8, false)
	if code := a.code(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	_ = a.tracer.Wait()
}

// TestExecByAnotherThread: probes are tied to a process's first thread, which goes where another
// thread executes a program. The new one is seen from its first instruction if the process stands
// still then; if it does not, what was missed counts as lost.
func TestExecByAnotherThread(t *testing.T) {
	t.Parallel()
	program, err := filepath.Abs(testProgram("leak_exec"))
	if err != nil {
		t.Fatal(err)
	}
	for flag, whole := range map[string]bool{"--hold=true": true, "--hold=false": false, "--follow=false": false} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "report")
			cmd := memtraceCommand(t, "run", flag, "--format", "json", "--report", file, "--", program, "0", "500")
			cmd.Env = append(cmd.Env, "HOW=another")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			r, seen := readReport(t, file), uint64(0)
			for _, s := range r.Sites {
				if len(s.Stack) > 0 && s.Stack[0].Function == "lose" {
					seen += s.AllocCount
				}
			}
			if lost := r.Events.LostBy.Unprobed; whole && (seen != 500 || lost != 0) || !whole && seen != 500 && lost == 0 {
				t.Errorf("%d allocations seen of 500, %d lost", seen, lost)
			}
		})
	}
}

// checkReplaced compares the blocks of 1000 bytes that were found with those that were lost.
func checkReplaced(t *testing.T, r *report.Report, want uint64, warned bool) {
	t.Helper()
	lost := uint64(0)
	for _, l := range r.Leaks {
		if l.Kind != "definite" {
			continue
		}
		lost += l.Count
		if l.Bytes != 1000*l.Count || !strings.Contains(l.Why, "before it executed another program") {
			t.Errorf("%+v", l)
		}
		for _, s := range r.Sites {
			if s.ID == l.Site && (s.Function != "lose" || l.Process != s.Process) {
				t.Errorf("lost at %s, of process %s and %s", s.Function, strconv.Itoa(s.Process), strconv.Itoa(l.Process))
			}
		}
	}
	if got := strings.Contains(strings.Join(r.Warnings, "\n"), "not checked for leaks before"); lost != want || got != warned {
		t.Errorf("%d blocks, want %d; warned %v, want %v: %q", lost, want, got, warned, r.Warnings)
	}
}
