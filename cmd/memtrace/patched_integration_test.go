//go:build integration

package main

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
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

// Interpreters of machine code, and what they run: without memtrace it ends with 17.
var interpreters = map[string][]string{
	"valgrind":  {"valgrind", "-q", "sh", "-c"},
	"qemu-user": {"qemu-x86_64", "/bin/sh", "-c"},
}

// interpreted is a program that an interpreter runs, which waits for a line and then executes another in a child.
func interpreted(t *testing.T, with []string) *spawned {
	t.Helper()
	p := spawn(t, exec.Command(with[0], append(slices.Clone(with[1:]), "echo ready; read line; ls / >/dev/null; exit 17")...))
	p.lineWith("ready")
	return p
}

func (p *spawned) endsWith17() {
	p.t.Helper()
	p.say("go")
	<-p.exited
	if code := p.cmd.ProcessState.ExitCode(); code != 17 {
		p.t.Errorf("%s ended with %d, want 17; it said %s", p.cmd, code, p.errors)
	}
}

// Interpreters of machine code read the code of the C library. They are left alone, as the program, as a child, and as one that
// runs already, and end as without memtrace.
func TestInterpretersAreLeftAlone(t *testing.T) {
	t.Parallel()
	const why = "interpreter of machine code"
	for name, with := range interpreters {
		report := filepath.Join(t.TempDir(), "report")
		for as, args := range map[string][]string{
			"the program": append(append([]string{"run", "--report", report, "--"}, with...), "exit 17"),
			"a child":     {"run", "--leaks", "--report", report, "--", "sh", "-c", strings.Join(with, " ") + " 'exit 17'; exit $?"},
		} {
			t.Run(name+" as "+as, func(t *testing.T) {
				t.Parallel()
				cmd := memtraceCommand(t, args...)
				out, _ := cmd.CombinedOutput()
				if code := cmd.ProcessState.ExitCode(); code != 17 || !bytes.Contains(out, []byte(why)) {
					t.Errorf("exit code %d, want its 17 and why it was left alone; memtrace said %s", code, out)
				}
			})
		}
		t.Run(name+" attached", func(t *testing.T) {
			t.Parallel()
			p := interpreted(t, with)
			tr := attach(t, p.pid())
			p.endsWith17()
			if r := tr.interrupt(); !strings.Contains(fmt.Sprint(r.Warnings), why) {
				t.Errorf("warnings: %q", r.Warnings)
			}
		})
	}
}

// Probes in files would reach interpreters, too: --all refuses to begin where one runs, and names it.
func TestAllSparesInterpreters(t *testing.T) {
	t.Parallel()
	for name, with := range interpreters {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := interpreted(t, with)
			said, code := memtrace(t, "--all", "--risk-interpreters", "-d", "1s")
			if code != exitFailed || !strings.Contains(said, fmt.Sprintf("process %d: an interpreter of machine code", p.pid())) {
				t.Errorf("exit code %d, want %d; memtrace said %s", code, exitFailed, said)
			}
			p.endsWith17()
		})
	}
}
