//go:build linux && !viewer

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/memtrace/memtrace/analyzer/snapshot"
)

// A snapshot to /dev/stdout goes to the file that stdout is, behind what is there, and the name stays what it is. The
// name is that in /proc, where nothing can be replaced, as a test must not break the machine's.
func TestSnapshotToStdout(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "out")
	const before = "before\n"
	if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command(self, "snapshot", "--stall-budget", "0", "-o", "/proc/self/fd/1")
	cmd.Env = append(os.Environ(), asMemtrace+"=1")
	cmd.Stdout = out
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil || len(whole) < len(before) || string(whole[:len(before)]) != before {
		t.Fatalf("%v, the file begins with %.20q", err, whole)
	}
	rest := filepath.Join(t.TempDir(), "rest")
	if err := os.WriteFile(rest, whole[len(before):], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := snapshot.Open(rest); err != nil {
		t.Error(err)
	}
}
