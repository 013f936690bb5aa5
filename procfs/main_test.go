package procfs

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The headless child ends its first thread, which must be the one that runs main.
func init() {
	if os.Getenv("PROCFS_TEST_CHILD") == "headless" {
		runtime.LockOSThread()
	}
}

// headless ends the thread it is called on once others are there to go on.
func headless() {
	go func() {
		for {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", os.Getpid()))
			if err != nil || strings.Contains(string(stat), ") Z ") {
				break
			}
			runtime.Gosched()
		}
		fmt.Println("ready")
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	_, _, _ = unix.Syscall(unix.SYS_EXIT, 0, 0, 0)
}

// TestMain also is the child process of the tests, and fails them where they
// leave descriptors of processes open.
func TestMain(m *testing.M) {
	switch os.Getenv("PROCFS_TEST_CHILD") {
	case "headless":
		headless()
	case "whole":
		fmt.Println("ready")
		_, _ = io.Copy(io.Discard, os.Stdin) // until the parent closes it
		return
	}
	code := m.Run()
	if leaked := openDescriptors(); len(leaked) > 0 && code == 0 {
		fmt.Fprintln(os.Stderr, "descriptors left open:", leaked)
		code = 1
	}
	os.Exit(code)
}

// openDescriptors lists those of this package's making that are open.
func openDescriptors() (open []string) {
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		to, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil && (strings.HasPrefix(to, "/proc/") || strings.Contains(to, "pidfd")) && !strings.HasSuffix(to, "/fd") {
			open = append(open, to)
		}
	}
	return open
}

// startChild starts the test binary, named name, and returns it once it is up.
func startChild(t testing.TB, name string) *exec.Cmd {
	t.Helper()
	return startChildAs(t, name, "whole")
}

func startChildAs(t testing.TB, name, kind string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), name)
	if err := os.Symlink(self, link); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(link)
	cmd.Env = append(os.Environ(), "PROCFS_TEST_CHILD="+kind)
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
	return cmd
}

// stopChild stops a child, so that its memory stays as it is.
func stopChild(t testing.TB, pid int) {
	t.Helper()
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var ws unix.WaitStatus
	if _, err := unix.Wait4(pid, &ws, unix.WUNTRACED, nil); err != nil || !ws.Stopped() {
		t.Fatalf("child did not stop: %v, %v", ws, err)
	}
}

// openLive opens a process of this machine.
func openLive(t testing.TB, pid int) *Process {
	t.Helper()
	fs, err := New(DefaultRoot)
	if err != nil {
		t.Fatal(err)
	}
	p, err := fs.Process(pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}
