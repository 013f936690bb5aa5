//go:build integration

package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestSIGKILLWhileStopped kills memtrace while a process stands still for it:
// the process runs on at once.
func TestSIGKILLWhileStopped(t *testing.T) {
	list := filepath.Join(t.TempDir(), "list")
	program := exec.Command(testProgram("leak_bench"), "256", list, "far")
	in, err := program.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = program.Process.Kill() })
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.HasPrefix(line, "ready ") {
		t.Fatalf("the program said %q: %v", line, err)
	}
	pid := strconv.Itoa(program.Process.Pid)
	for _, args := range [][]string{{"leaks", "-p", pid, "--stop"}, {"-p", pid, "-d", "100ms", "--stop"}} {
		tracer := memtraceCommand(t, args...)
		if err := tracer.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the program stands still", func() bool { return stateOf(t, pid) == "t" })
		_ = tracer.Process.Kill() // it is there: the program is stopped by it
		killed := time.Now()
		for stateOf(t, pid) == "t" {
			if time.Since(killed) > time.Second {
				t.Fatalf("memtrace %v was killed, and the program stands still", args)
			}
		}
		t.Logf("memtrace %v: the program ran on after %v", args, time.Since(killed))
		_ = tracer.Wait()
	}
	_ = in.Close()
	if err := program.Wait(); err != nil {
		t.Errorf("the program: %v", err)
	}
}

// stateOf is the letter of a process's state; t is stopped by a tracer.
func stateOf(t *testing.T, pid string) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%s/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "\nState:\t")
	return after[:1]
}
