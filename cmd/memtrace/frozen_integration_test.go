//go:build integration

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// freezer is a control group whose processes the kernel keeps from running, by the freezer of cgroup v1: there a ptrace
// call that meets a stopped process waits until that is thawed.
type freezer struct {
	t   *testing.T
	dir string
}

func newFreezer(t *testing.T) *freezer {
	t.Helper()
	root := "/sys/fs/cgroup/freezer"
	if _, err := os.Stat(root + "/cgroup.procs"); err != nil {
		known, err := os.ReadFile("/proc/cgroups")
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(known, []byte("\nfreezer\t")) {
			t.Skip("this kernel has no freezer of cgroup v1")
		}
		root = t.TempDir()
		if err := syscall.Mount("cgroup", root, "cgroup", 0, "freezer"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = syscall.Unmount(root, 0) })
	}
	dir, err := os.MkdirTemp(root, "memtrace-test-")
	if err != nil {
		t.Fatal(err)
	}
	f := &freezer{t, dir}
	t.Cleanup(func() {
		f.set("THAWED")
		for began := time.Now(); os.Remove(f.dir) != nil && time.Since(began) < 10*time.Second; { // its process ends
			time.Sleep(time.Millisecond)
		}
	})
	return f
}

func (f *freezer) set(state string) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, "freezer.state"), []byte(state), 0); err != nil {
		f.t.Error(err)
	}
}

// freeze puts a process in and waits until it is frozen.
func (f *freezer) freeze(pid int) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, "cgroup.procs"), fmt.Append(nil, pid), 0); err != nil {
		f.t.Fatal(err)
	}
	f.set("FROZEN")
	for text := []byte(nil); strings.TrimSpace(string(text)) != "FROZEN"; time.Sleep(time.Millisecond) {
		var err error
		if text, err = os.ReadFile(filepath.Join(f.dir, "freezer.state")); err != nil {
			f.t.Fatal(err)
		}
	}
}

// A process that is stopped and frozen answers no ptrace call. memtrace says so, does without, and ends; the process is
// what it was before.
func TestStoppedAndFrozen(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"leaks", "--stop"}, {"-d", "1s", "--leaks", "--stop"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			c := spawn(t, exec.Command(testProgram("heap_truth")))
			pid := c.pid()
			c.lineWith("ready")
			c.signal(syscall.SIGSTOP)
			awaitState(t, pid, 'T')
			f := newFreezer(t)
			f.freeze(pid)
			cmd := memtraceCommand(t, append(args, "--format", "json", "-p", fmt.Sprint(pid))...)
			var complaints strings.Builder
			cmd.Stderr = &complaints
			if err := cmd.Run(); err != nil || !strings.Contains(complaints.String(), "thaw") {
				t.Errorf("memtrace ended with %v and said %q; want 0 and what to do", err, complaints.String())
			}
			f.set("THAWED")
			awaitState(t, pid, 'T')
			c.signal(syscall.SIGCONT)
			c.end()
		})
	}
}

// awaitState waits until a process is in a state, as /proc/PID/stat names it.
func awaitState(t *testing.T, pid int, state byte) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		got := stat[bytes.LastIndexByte(stat, ')')+2]
		if got == state {
			return
		}
		if time.Since(began) > 10*time.Second {
			t.Fatalf("process %d is in state %c, want %c", pid, got, state)
		}
	}
}
