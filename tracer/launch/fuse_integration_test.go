//go:build services && amd64

package launch

import (
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// mountUnresponsive mounts a file system whose server answers nothing, and returns what aborts it.
func mountUnresponsive(t *testing.T) (dir string, abort func()) {
	t.Helper()
	server, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatalf("open /dev/fuse: %v", err)
	}
	dir = t.TempDir()
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", server)
	if err := unix.Mount("mute", dir, "fuse", unix.MS_NODEV|unix.MS_NOSUID, options); err != nil {
		t.Fatalf("mount a file system in user space: %v", err)
	}
	abort = sync.OnceFunc(func() { _ = unix.Close(server) }) // all calls that wait for it fail
	t.Cleanup(func() {
		abort()
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir, abort
}

// setArgument makes the string the first argument of a stopped thread's next call.
func setArgument(t *testing.T, tid int, text string) {
	t.Helper()
	var regs unix.PtraceRegs
	if err := unix.PtraceGetRegs(tid, &regs); err != nil {
		t.Fatal(err)
	}
	regs.Rdi = regs.Rsp - 4096
	if _, err := unix.PtracePokeData(tid, uintptr(regs.Rdi), append([]byte(text), 0)); err != nil {
		t.Fatal(err)
	}
	if err := unix.PtraceSetRegs(tid, &regs); err != nil {
		t.Fatal(err)
	}
}

// TestExecOfAFileThatNobodyHandsOut: one program's file is looked for beside the watch: a file
// system that never answers must not keep all other programs standing still.
func TestExecOfAFileThatNobodyHandsOut(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	dir, abort := mountUnresponsive(t)
	pid := startTraced(t)
	setArgument(t, pid, filepath.Join(dir, "program"))
	w := newWatcher(Hooks{Execing: func(int) bool { return true }, AtExec: func(Ending) {}})
	defer close(w.ended)
	p := w.programAt(pid)
	w.own(pid, p)
	hang := time.AfterFunc(20*time.Second, func() {
		t.Error("the watch waits for a file system of the program's")
		abort()
	})
	if !w.execCalled(pid) || !isHeld(t, pid) {
		t.Error("the program goes on before it is known whether it executes another")
	}
	if !hang.Stop() {
		return
	}
	select {
	case <-w.calls:
		t.Error("the look-up came back from a file system that answers nothing")
	default:
	}
	abort()
	(<-w.calls)()
	if !p.execing || !isHeld(t, pid) {
		t.Error("a program of which nobody knows whether it is replaced is not looked at")
	}
}
