package launch

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// startTraced starts a program that stands at its first stop, as a tracee of this thread.
func startTraced(t *testing.T) (pid int) {
	t.Helper()
	cmd := exec.Command("sleep", "infinity")
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	var status unix.WaitStatus
	if _, err := unix.Wait4(cmd.Process.Pid, &status, unix.WALL, nil); err != nil || !status.Stopped() {
		t.Fatalf("wait for the program's first stop: %v, status %#x", err, status)
	}
	return cmd.Process.Pid
}

// isHeld reports whether a tracee stands still.
func isHeld(t *testing.T, pid int) bool {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Contains(stat, []byte(") t "))
}

// TestHolds: a process that stands still under ptrace of this process is told from others.
func TestHolds(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if Holds(os.Getpid()) {
		t.Error("this process holds itself")
	}
	pid := startTraced(t)
	if !Holds(pid) {
		t.Error("a program that stands at its first stop is not held")
	}
	if err := unix.PtraceCont(pid, 0); err != nil {
		t.Fatal(err)
	}
	if Holds(pid) {
		t.Error("a program that runs is held")
	}
}

// TestReplacedProgramLetsNobodyGo: what was done for a thread of a program that another thread
// replaced meanwhile does not let the new one go, whose leader has the same number.
func TestReplacedProgramLetsNobodyGo(t *testing.T) {
	for name, stop := range map[string]func(w *Watcher, p *program){
		"a thread that loaded code": func(w *Watcher, p *program) { w.metUnknown(p.pid) },
		"a thread that called exec": func(w *Watcher, p *program) {
			p.execing = true
			p.hold(p.pid)
			w.gather(p)
		},
	} {
		t.Run(name, func(t *testing.T) {
			runtime.LockOSThread() // ptrace belongs to a thread
			defer runtime.UnlockOSThread()
			pid := startTraced(t)
			looking := make(chan struct{})
			defer close(looking)
			w := newWatcher(Hooks{
				Unknown: func(int) func() { return func() {} },
				AtExec:  func(Ending) {},
				Started: func(int) bool { <-looking; return true },
			})
			defer close(w.ended)
			p := w.programAt(pid)
			w.own(pid, p)
			stop(w, p)
			w.execed(pid)
			(<-w.calls)()
			if !isHeld(t, pid) {
				t.Error("the new program runs while it is still looked at")
			}
		})
	}
}

// TestSecondExecWaits: of two threads that call exec at once, the second waits until the
// program was looked at for the first, which it would end.
func TestSecondExecWaits(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pid := startTraced(t)
	w := newWatcher(Hooks{Execing: func(int) bool { return true }, AtExec: func(Ending) {}})
	p := w.programAt(pid)
	w.own(pid, p)
	p.execing, p.hookCalled = true, true // the other is being looked at
	if !w.execCalled(pid) || !isHeld(t, pid) {
		t.Fatal("the second goes on while the first is looked at")
	}
	w.resumeHeld(p)
	if isHeld(t, pid) {
		t.Error("the second is not let go with the first")
	}
}
