//go:build integration

package main

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// TestEventsThatCannotBeWritten: a full disk is a failure that says how much is missing.
func TestEventsThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = full.Close() }()
	p := startProgram(t, "every_function")
	cmd := memtraceCommand(t, "-p", strconv.Itoa(p.pid()), "--events")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = full, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	awaitTraced(t, p.pid())
	p.proceed()
	p.end()
	_ = cmd.Wait() // its code is looked at
	if code := cmd.ProcessState.ExitCode(); code != exitFailed || !strings.Contains(said.String(), "memtrace: 0 events shown") ||
		!strings.Contains(said.String(), "no space left on device") {
		t.Errorf("code %d, on stderr %s", code, &said)
	}
}

// TestOtherAllocatorsMayThrow: where every return is probed, an exception from an allocator's own
// operator new would end the program, which is said before; of glibc there is nothing to say.
func TestOtherAllocatorsMayThrow(t *testing.T) {
	t.Parallel()
	for preload, warned := range map[string]bool{privateLibrary(t, jemallocLib): true, "": false} {
		program := exec.Command(testProgram("every_function"), "attach", "no-pvalloc")
		program.Env = append(os.Environ(), "LD_PRELOAD="+preload)
		p := spawn(t, program)
		p.lineWith("ready")
		out, err := memtraceCommand(t, "-p", strconv.Itoa(p.pid()), "--attach", "perf", "-d", "500ms").CombinedOutput()
		if err != nil || strings.Contains(string(out), "throw std::bad_alloc") != warned {
			t.Errorf("preloaded %q: %v, warned %v, want %v:\n%s", preload, err, !warned, warned, out)
		}
	}
}
