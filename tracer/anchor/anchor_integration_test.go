//go:build integration

package anchor

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/procfs"
)

// TestNoTrapIsSet: a file has its anchor once, which the keeper has, and no process that maps the file has another byte
// of code.
func TestNoTrapIsSet(t *testing.T) {
	endKeeper(t)
	cmd := exec.Command("cat")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("cat: %v", err)
		}
	}()
	var echo [1]byte // once it runs, all of it is mapped
	if _, err := stdin.Write(echo[:]); err != nil {
		t.Fatal(err)
	}
	if _, err := stdout.Read(echo[:]); err != nil {
		t.Fatal(err)
	}
	path, at, offset := code(t, cmd.Process.Pid)
	for range 2 {
		if err := Hold(path, offset); err != nil {
			t.Fatal(err)
		}
		if n := anchors(t); n != 1 {
			t.Errorf("the keeper has %d anchors, want 1", n)
		}
	}
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var inMemory, inFile [64]byte
	if _, err := mem.ReadAt(inMemory[:], at); err != nil {
		t.Fatal(err)
	}
	if _, err := file.ReadAt(inFile[:], int64(offset)); err != nil {
		t.Fatal(err)
	}
	if inMemory != inFile || bytes.Equal(inFile[:], make([]byte, len(inFile))) {
		t.Errorf("in memory % x\nin the file % x", inMemory, inFile)
	}
}

// TestKeeperIsStartedAgain: where somebody has ended it, the next file starts another one.
func TestKeeperIsStartedAgain(t *testing.T) {
	for range 2 {
		endKeeper(t)
		if err := Hold("/bin/cat", 4096); err != nil {
			t.Fatal(err)
		}
		if n := anchors(t); n != 1 {
			t.Errorf("the keeper has %d anchors, want 1", n)
		}
	}
}

// endKeeper ends the keeper, if there is one, and returns once we know of it.
func endKeeper(t *testing.T) {
	t.Helper()
	for killed := false; ; {
		kept.Lock()
		there, pid := kept.socket != nil, kept.pid
		kept.Unlock()
		if !there {
			return
		}
		if !killed {
			if err := unix.Kill(pid, unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			killed = true
		}
		runtime.Gosched()
	}
}

// code finds code of a process's executable, which may be static: its file, its address, and its offset in the file.
func code(t *testing.T, pid int) (path string, at int64, offset uint64) {
	t.Helper()
	fs, err := procfs.New("/proc")
	if err != nil {
		t.Fatal(err)
	}
	p, err := fs.Process(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	err = p.Maps(func(v *procfs.VMA) {
		if v.Perms&procfs.Exec != 0 && v.Inode != 0 && at == 0 {
			const within = 4096
			path, at, offset = string(v.Path), int64(v.Start)+within, v.Offset+within
		}
	})
	if err != nil || at == 0 {
		t.Fatalf("find the code of process %d: %v", pid, err)
	}
	return path, at, offset
}

// anchors counts those that the keeper has.
func anchors(t *testing.T) (n int) {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", kept.pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if to, _ := os.Readlink(dir + "/" + e.Name()); strings.Contains(to, "[perf_event]") {
			n++
		}
	}
	return n
}
