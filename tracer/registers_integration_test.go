//go:build integration

package tracer

import (
	"bufio"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// TestRegistersOfARunningProcess finds a number that a thread has in a
// register and nowhere else.
func TestRegistersOfARunningProcess(t *testing.T) {
	program := filepath.Join(t.TempDir(), "ends")
	if out, err := exec.Command("gcc", "-O1", "-no-pie", "-pthread", "-o", program, "launch/testdata/ends.c").CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	cmd := exec.Command(program, "wait")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatal(line, err)
	}
	threads, err := Registers(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	found := slices.ContainsFunc(threads, func(r ThreadRegisters) bool { return slices.Contains(r.Words, 0x7265676973746572) })
	if len(threads) != 2 || !found {
		t.Errorf("%d threads, want 2; the number is in a register: %v", len(threads), found)
	}
}
