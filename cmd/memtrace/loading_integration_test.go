//go:build integration

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// ownCode is a program with a dynamic loader and without a C library, which runs until it is killed.
const ownCode = `
void _start(void) {
	for (;;) // ppoll of nothing
#ifdef __aarch64__
		__asm__ volatile("mov x0, 0\n mov x1, 0\n mov x2, 0\n mov x3, 0\n mov x8, 73\n svc 0"
			::: "x0", "x1", "x2", "x3", "x8", "memory");
#else
		__asm__ volatile("xor %%edi, %%edi\n xor %%esi, %%esi\n xor %%edx, %%edx\n xor %%r10d, %%r10d\n"
			"mov $271, %%eax\n syscall" ::: "rax", "rdi", "rsi", "rdx", "rcx", "r10", "r11", "memory");
#endif
}`

// TestLeaksOfAProgramThatIsLoading: a child that is still in its loader when the trace ends has run nothing, and
// leaks nothing. One without a C library may have run unseen, and is no pass.
func TestLeaksOfAProgramThatIsLoading(t *testing.T) {
	t.Parallel()
	own := filepath.Join(t.TempDir(), "own")
	compiler := exec.Command("gcc", "-nostdlib", "-pie", "-fPIE", "-O1", "-x", "c", "-o", own, "-")
	compiler.Stdin = strings.NewReader(ownCode)
	if out, err := compiler.CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	for name, c := range map[string]struct {
		program string
		waits   int // the system call in which it does
		ended   bool
		code    int
		says    string
	}{
		"loading":               {"/bin/true", unix.SYS_OPENAT, false, 0, ""},
		"ended while loading":   {"/bin/true", unix.SYS_OPENAT, true, 0, ""},
		"without the C library": {own, unix.SYS_PPOLL, false, 1, "no allocator found"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			// Opening it, the loader waits for a writer.
			if err := unix.Mkfifo(filepath.Join(dir, "libc.so.6"), 0o600); err != nil {
				t.Fatal(err)
			}
			const script = `LD_LIBRARY_PATH=$1 "$0" </dev/null >/dev/null 2>&1 & echo $!; read go; exit 0`
			cmd := memtraceCommand(t, "run", "--fail-on", "definite", "--", "/bin/sh", "-c", script, c.program, dir)
			var said bytes.Buffer
			cmd.Stderr = &said
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var child int
			if _, err := fmt.Fscan(bufio.NewReader(out), &child); err != nil {
				t.Fatalf("%v\n%s", err, said.String())
			}
			defer func() { _ = unix.Kill(child, unix.SIGKILL) }() // it may have ended
			awaitCall(t, child, c.program, c.waits)
			if c.ended {
				endLoader(t, dir, child)
			}
			in.Close() // sh ends
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(said.String(), c.says) {
				t.Errorf("exit code %d, want %d and %q:\n%s", code, c.code, c.says, said.String())
			}
		})
	}
}

// awaitCall waits until a process runs a program and is in a system call.
func awaitCall(t *testing.T, pid int, program string, call int) {
	t.Helper()
	program, err := filepath.EvalSymlinks(program)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		at, _ := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", pid))
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if exe == program && strings.HasPrefix(string(at), fmt.Sprintf("%d ", call)) &&
			strings.Contains(string(status), "State:\tS") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d executes %s and is in %q", pid, exe, at)
		}
	}
}

// endLoader has the loader of a process read an empty C library, and waits until it has ended of that.
func endLoader(t *testing.T, dir string, pid int) {
	t.Helper()
	empty, err := os.OpenFile(filepath.Join(dir, "libc.so.6"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	empty.Close()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil || strings.Contains(string(status), "State:\tZ") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d has not ended", pid)
		}
	}
}
