package procfs

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/procfs/proctest"
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
	case "undumpable": // and another user's
		if unix.Setresuid(65534, 65534, 65534) != nil || unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) != nil {
			os.Exit(1)
		}
		fallthrough
	case "whole":
		fmt.Println("ready")
		_, _ = io.Copy(io.Discard, os.Stdin) // until the parent closes it
		return
	}
	os.Exit(proctest.Run(m))
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
	proctest.Start(t, cmd)
	return cmd
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
