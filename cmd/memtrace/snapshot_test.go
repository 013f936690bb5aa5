//go:build linux && !viewer

package main

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestInterruptedSnapshot: Ctrl-C while a snapshot waits for its stall budget
// ends it with a word and without a file.
func TestInterruptedSnapshot(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd := exec.Command(self, "snapshot", "-o", filepath.Join(dir, "a.snap"), "--stall-budget", "1us", "--time-limit", "0s")
	cmd.Env = append(os.Environ(), asMemtrace+"=1")
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	lines := bufio.NewScanner(said)
	if !lines.Scan() || !strings.Contains(lines.Text(), "bit by bit to keep to --stall-budget") {
		t.Fatalf("it said %q", lines.Text())
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	lines.Scan()
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitFailed || !strings.Contains(lines.Text(), "interrupt") {
		t.Errorf("it ended with %v and said %q", err, lines.Text())
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}
