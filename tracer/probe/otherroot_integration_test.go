//go:build services && amd64

package probe

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"syscall"
	"testing"
)

// waits is a program that has an allocator and waits to be killed.
var waits = ".text\n" + allocatorAsm + ".globl _start\n.type _start, @function\n_start: mov $34, %eax\nsyscall\njmp _start\n.size _start, . - _start\n"

// TestDebugFileOfAnotherRoot starts a stripped program in a root directory that has a debug file for
// it. Nothing in there says where to place probes: all processes that map the program would have them.
func TestDebugFileOfAnotherRoot(t *testing.T) {
	t.Parallel()
	program := link(t, waits, "-static", "-Wl,--build-id=sha1")
	whole := inspectFile(t, program)
	if len(whole.Probes) == 0 {
		t.Fatal("the unstripped program has no allocator")
	}
	root := t.TempDir()
	debug := filepath.Join(root, "usr/lib/debug/.build-id", whole.BuildID[:2], whole.BuildID[2:]+".debug")
	if err := os.MkdirAll(filepath.Dir(debug), 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, "objcopy", "--only-keep-debug", program, debug)
	discover := func() ([]Object, error) {
		t.Helper()
		cmd := exec.Command("/waits")
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
		cmd.Dir = "/"
		if err := cmd.Start(); err != nil {
			t.Fatalf("this test needs root: %v", err)
		}
		defer func() {
			_ = cmd.Process.Kill() // it is a child of ours
			_ = cmd.Wait()
		}()
		return Discover("/proc", cmd.Process.Pid)
	}
	run(t, "cp", program, filepath.Join(root, "waits"))
	found, err := discover()
	if err != nil || len(found) != 1 || !reflect.DeepEqual(found[0].Probes, whole.Probes) {
		t.Fatalf("found %+v, %v, in the unstripped program, want %+v", found, err, whole.Probes)
	}
	CloseAll(found)
	run(t, "strip", filepath.Join(root, "waits"))
	if found, err = discover(); !errors.Is(err, ErrStripped) {
		t.Errorf("found %+v, %v, in the stripped one, want %v", found, err, ErrStripped)
	}
	CloseAll(found)
}
