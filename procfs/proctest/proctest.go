// Package proctest is what the tests of the readers share: seeds for fuzzing
// from captured files, children to read, and a check that nothing stays open.
package proctest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Seed adds all files that match a pattern, cut short too.
func Seed(f *testing.F, pattern string) {
	f.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		f.Fatalf("no fixture %s: %v", pattern, err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(data[:len(data)/2])
	}
}

// Run runs the tests and returns the exit code, which is 1 also where they left
// descriptors of processes open.
func Run(m *testing.M) int {
	code := m.Run()
	if leaked := OpenDescriptors(); len(leaked) > 0 && code == 0 {
		fmt.Fprintln(os.Stderr, "descriptors left open:", leaked)
		code = 1
	}
	return code
}

// OpenDescriptors lists those of processes that are open.
func OpenDescriptors() (open []string) {
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		to, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil && (strings.HasPrefix(to, "/proc/") || strings.Contains(to, "pidfd")) && !strings.HasSuffix(to, "/fd") {
			open = append(open, to)
		}
	}
	return open
}

// Start starts a child that says "ready" when it is, and lives until its stdin
// ends or the test does.
func Start(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("child said %q: %v", line, err)
	}
}

// Stop stops a child, so that its memory stays as it is.
func Stop(t testing.TB, pid int) {
	t.Helper()
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var ws unix.WaitStatus
	if _, err := unix.Wait4(pid, &ws, unix.WUNTRACED, nil); err != nil || !ws.Stopped() {
		t.Fatalf("child did not stop: %v, %v", ws, err)
	}
}
