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
)

// TestSIGKILLWhileStopped kills memtrace while a process stands still for it:
// the process runs on.
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
		for try := 1; !killedWhileStopped(t, pid, args); try++ {
			if try == 20 {
				t.Fatalf("memtrace %v: the program was never seen to stand still", args)
			}
			t.Log("memtrace ended before the program was seen to stand still: once more")
		}
		eventually(t, fmt.Sprintf("the program runs on, as memtrace %v was killed", args), func() bool { return stateOf(t, pid) != "t" })
	}
	_ = in.Close()
	if err := program.Wait(); err != nil {
		t.Errorf("the program: %v", err)
	}
}

// killedWhileStopped runs memtrace until a process stands still for it, and kills it.
// On a busy machine it may have ended before that was seen: then it returns false.
func killedWhileStopped(t *testing.T, pid string, args []string) bool {
	t.Helper()
	tracer := memtraceCommand(t, args...)
	if err := tracer.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = tracer.Wait()
	}()
	for stateOf(t, pid) != "t" {
		select {
		case <-ended:
			return false
		default:
		}
	}
	_ = tracer.Process.Kill() // it is there: the program is stopped by it
	<-ended
	return true
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
