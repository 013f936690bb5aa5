//go:build integration

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/procfs"
)

// endingProcess returns the ID of a process that runs no code any more, and has that ID until the test's end:
// the first process of a PID namespace waits in its exit for its child, which the test holds by ptrace.
func endingProcess(t *testing.T) int {
	t.Helper()
	runtime.LockOSThread() // the child is let go as the thread that seized it ends
	cmd := exec.Command(testProgram("births"), "attach", "prefork", "1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	p := spawn(t, cmd)
	p.lineWith("ready")
	p.proceed() // it answers once its child has allocated, and waits
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", p.pid()))
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.PtraceSeize(child); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.Kill(child, unix.SIGKILL) // it ended with the namespace, unless the test failed before
		if _, err := unix.Wait4(child, nil, unix.WALL, nil); err != nil {
			t.Error(err)
		}
		runtime.UnlockOSThread()
	})
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	return p.pid()
}

// A process that is in its exit has its ID and its files in /proc yet, while its last event has been read. An answer
// about it that comes then makes it no target again, of which nothing would say that it has ended.
func TestEndingProcessIsNoNewTarget(t *testing.T) {
	s := bareSession(t)
	pid := endingProcess(t)
	eventually(t, "the process is in its exit", func() bool {
		held, err := s.fs.Hold(pid)
		if err != nil {
			t.Fatalf("the kernel has let go of it: %v", err)
		}
		defer held.Close()
		stat, err := held.Stat()
		return err == nil && stat.Exiting() && held.Alive()
	})
	if _, err := holdRunning(s.fs, pid); !errors.Is(err, procfs.ErrGone) {
		t.Errorf("it can be a new target: %v, want %v", err, procfs.ErrGone)
	}
	if s.alive(pid) {
		t.Error("it is said to run")
	}
	s.followed(found{search: search{pid: pid, exec: true}})
	if s.execedUnprobed(pid, nil) != nil || len(s.targets) != 0 {
		t.Errorf("it is a target again: %v", s.targets)
	}
}

// A process whose first thread has ended runs on, and is a target yet.
func TestEndingProcessIsNotOneWithoutItsFirstThread(t *testing.T) {
	s, p := bareSession(t), startFirstThread(t)
	p.do("end")
	eventually(t, "the first thread is in its exit", func() bool {
		held, err := s.fs.Hold(p.pid())
		if err != nil {
			t.Fatalf("it has ended: %v", err)
		}
		defer held.Close()
		stat, err := held.Stat()
		return err == nil && stat.Exiting()
	})
	if !s.alive(p.pid()) {
		t.Error("it is said not to run")
	}
	running, err := holdRunning(s.fs, p.pid())
	if err != nil {
		t.Fatalf("it can be no new target: %v", err)
	}
	s.drop(running)
}
