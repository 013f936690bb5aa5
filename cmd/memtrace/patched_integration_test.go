//go:build integration

package main

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A function that was changed at run time is not probed, as a breakpoint in the middle of somebody's jump breaks it: memtrace
// says so and leaves the process alone, which runs on.
func TestPatchedCodeIsLeftAlone(t *testing.T) {
	t.Parallel()
	p := spawn(t, exec.Command(testProgram("patched")))
	p.lineWith("ready")
	cmd := memtraceCommand(t, "-p", fmt.Sprint(p.pid()), "-d", "10s", "--format", "json")
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != exitFailed || !strings.Contains(string(out), "malloc in ") || !strings.Contains(string(out), "left alone") {
		t.Errorf("memtrace ended with %v and said %s; want %d, and why", err, out, exitFailed)
	}
	p.say("go")
	p.lineWith("hooked 1000")
	<-p.exited
	if code := p.cmd.ProcessState.ExitCode(); code != 12 {
		t.Errorf("the program ended with %d, want 12", code)
	}
}

// Interpreters of machine code read the code of the C library. They are left alone, as the program, as a child, and as one that
// runs already, and end as without memtrace.
func TestInterpretersAreLeftAlone(t *testing.T) {
	t.Parallel()
	report := func() string { return filepath.Join(t.TempDir(), "report") }
	for name, args := range map[string][]string{
		"the program": {"run", "--report", report(), "--", "valgrind", "-q", "sh", "-c", "exit 17"},
		"a child":     {"run", "--leaks", "--report", report(), "--", "sh", "-c", "valgrind -q sh -c 'exit 17'; exit $?"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := memtraceCommand(t, args...)
			out, _ := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != 17 || !bytes.Contains(out, []byte("interpreter of machine code")) {
				t.Errorf("exit code %d, want valgrind's 17 and why it was left alone; memtrace said %s", code, out)
			}
		})
	}
	t.Run("attached", func(t *testing.T) {
		t.Parallel()
		p := spawn(t, exec.Command("valgrind", "-q", "sh", "-c", "echo ready; read line; ls / >/dev/null; exit 17"))
		p.lineWith("ready")
		tr := attach(t, p.pid())
		p.say("go")
		<-p.exited
		if r := tr.interrupt(); !strings.Contains(fmt.Sprint(r.Warnings), "interpreter of machine code") {
			t.Errorf("warnings: %q", r.Warnings)
		}
		if code := p.cmd.ProcessState.ExitCode(); code != 17 {
			t.Errorf("valgrind ended with %d, want 17; it said %s", code, p.errors)
		}
	})
}

// Probes in files would reach interpreters, too: --all refuses to begin where one runs, and names it.
func TestAllSparesInterpreters(t *testing.T) {
	t.Parallel()
	p := spawn(t, exec.Command("valgrind", "-q", "sh", "-c", "echo ready; read line; ls / >/dev/null; exit 17"))
	p.lineWith("ready")
	said, code := memtrace(t, "--all", "--risk-interpreters", "-d", "1s")
	if code != exitFailed || !strings.Contains(said, fmt.Sprintf("process %d: an interpreter of machine code", p.pid())) {
		t.Errorf("exit code %d, want %d; memtrace said %s", code, exitFailed, said)
	}
	p.say("go")
	<-p.exited
	if code := p.cmd.ProcessState.ExitCode(); code != 17 {
		t.Errorf("valgrind ended with %d, want 17; it said %s", code, p.errors)
	}
}
