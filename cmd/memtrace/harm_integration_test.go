//go:build integration

package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/procfs/proctest"
)

// A harmless row is a program that a tracer could break: how it ends alone is how it must end under memtrace.
type harmless struct {
	program, mode string
	said          string   // what it says alone, so that a row can't be about nothing
	leaks         bool     // also with a check for leaks, which stops it more often
	more          []string // arguments
}

var harmlessRows = []harmless{
	{program: "odd", mode: "sigwait", said: "signals 100\n"},
	{program: "odd", mode: "signalfd", said: "signals 100\n"},
	{program: "odd", mode: "waits", said: "woken 5, early 0 0 0 0 0 0\n", leaks: true},
	{program: "odd", mode: "namespaces", said: "process 1 of user 65534\n", leaks: true},
	{program: "odd", mode: "seized", said: "passed on 10\n", leaks: true},
	{program: "odd", mode: "coroutines", said: "switched\n"},
	{program: "odd", mode: "filter", said: "filtered\n"},
	{program: "odd", mode: "strict", said: "strict\n"},
	{program: "odd", mode: "traceme", said: "traced 0\n", leaks: true},
	{program: "odd", mode: "debugger", said: "seized 0, ended with 5\n", leaks: true},
	{program: "odd", mode: "debugged", said: "attached 0, stopped by 19\n", leaks: true},
	{program: "odd", mode: "dumped", said: "taken 0, stopped by 19\n", leaks: true},
	{program: "odd", mode: "dump", said: "taken 0, stopped by 19\ngoes on\n", leaks: true},
	{program: "odd", mode: "handed", said: "taken 0, stopped by 19\n", leaks: true},
	{program: "odd", mode: "handles", said: "returned 50, jumped 50\n", leaks: true},
	{program: "odd", mode: "raised", said: "user 0\n"},
	{program: "odd_lsan", mode: "bye", said: "bye\n", leaks: true},
	{program: "odd_asan", mode: "bye", said: "bye\n"},
}

// TestHarmless runs each program alone, by memtrace run, and attached, each by another of the mechanisms that the
// kernel has. Its output and its exit code are to be the same.
func TestHarmless(t *testing.T) {
	t.Parallel()
	raised := setuidCopy(t, testProgram("odd"))
	for i, row := range harmlessRows {
		if row.mode == "raised" {
			row.more = []string{raised}
		}
		t.Run(row.program+" "+row.mode, func(t *testing.T) {
			t.Parallel()
			alone := exec.Command(testProgram(row.program), row.arguments()...)
			want := ending(t, alone)
			if !strings.HasPrefix(want, row.said) {
				t.Fatalf("alone the program said %q, want %q", want, row.said)
			}
			mechanisms := mechanismsHere(t)
			mechanism := func(k int) string { return string(mechanisms[(i+k)%len(mechanisms)]) }
			for k, flags := range [][]string{nil, {"--leaks"}} {
				if flags != nil && !row.leaks {
					continue
				}
				args := append([]string{"run", "--attach", mechanism(k), "--report", filepath.Join(t.TempDir(), "report")}, flags...)
				args = append(append(args, "--", testProgram(row.program)), row.arguments()...)
				cmd := memtraceCommand(t, args...)
				var said bytes.Buffer
				cmd.Stderr = &said
				if got := ending(t, cmd); got != want {
					t.Errorf("memtrace %q: %q, alone %q; on stderr it said %s", args, got, want, &said)
				}
			}
			row.attached(t, mechanism(2), want)
		})
	}
}

// attached compares how the program ends that memtrace has attached to before it begins.
func (row harmless) attached(t *testing.T, mechanism, want string) {
	t.Helper()
	p := spawn(t, exec.Command(testProgram(row.program), append([]string{row.mode, "wait"}, row.more...)...))
	p.lineWith("ready")
	tr := attach(t, p.pid(), "--attach", mechanism)
	p.say("go")
	var got strings.Builder
	for line, ok := p.line(); ok; line, ok = p.line() {
		got.WriteString(line + "\n")
	}
	<-p.exited
	tr.end()
	if said := got.String() + p.cmd.ProcessState.String(); said != want {
		t.Errorf("attached by %s: %q, alone %q; on stderr it said %s", mechanism, said, want, p.errors)
	}
}

func (row harmless) arguments() []string { return append([]string{row.mode}, row.more...) }

// ending runs a command, and says what it printed and how it ended.
func ending(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out) + cmd.ProcessState.String()
}

// setuidCopy makes a copy of a program that whoever executes it is root in.
func setuidCopy(t *testing.T, program string) string {
	t.Helper()
	code, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	copied := filepath.Join(dir, "raised")
	for _, err := range []error{proctest.WriteProgram(copied, code), os.Chmod(copied, 0o755|os.ModeSetuid), os.Chmod(dir, 0o755), os.Chmod(filepath.Dir(dir), 0o755)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return copied
}

// A check that gave way to LeakSanitizer's is no check that found nothing: the job does not pass. With that left out, memtrace makes it.
func TestNoCheckBesideLeakSanitizers(t *testing.T) {
	t.Parallel()
	for options, want := range map[string]int{"": exitFailed, "detect_leaks=0": 0} {
		cmd := memtraceCommand(t, "run", "--fail-on", "definite", "--", testProgram("odd_lsan"), "bye")
		cmd.Env = append(cmd.Env, "LSAN_OPTIONS="+options)
		var said bytes.Buffer
		cmd.Stderr = &said
		_ = cmd.Run() // see its code
		if code := cmd.ProcessState.ExitCode(); code != want || (want != 0) != strings.Contains(said.String(), "it has LeakSanitizer") {
			t.Errorf("LSAN_OPTIONS=%s: exit code %d, want %d; memtrace said %s", options, code, want, &said)
		}
	}
}
