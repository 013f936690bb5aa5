//go:build integration

package tracer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// stoppedAt returns where each thread of a stopped process goes on, as the kernel says.
func stoppedAt(t *testing.T, pid int) (addrs []uint64) {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", pid))
	if err != nil || len(tasks) == 0 {
		t.Fatalf("list the threads: %v", err)
	}
	for deadline := time.Now().Add(10 * time.Second); len(addrs) < len(tasks); {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d threads have stopped", len(addrs), len(tasks))
		}
		addrs = addrs[:0]
		for _, task := range tasks {
			text, err := os.ReadFile(task)
			if err != nil {
				t.Fatal(err)
			}
			fields := strings.Fields(string(text))
			var ip uint64
			if _, err := fmt.Sscanf(fields[len(fields)-1], "0x%x", &ip); err == nil {
				addrs = append(addrs, ip)
			}
		}
	}
	return addrs
}

// TestPendingBlocks stops a program again and again: as many blocks are being
// handed out as threads stand behind the probe in malloc, but for calls whose
// prediction is checked.
func TestPendingBlocks(t *testing.T) {
	t.Parallel()
	needSession(t)
	allocators := []string{"", "libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libmimalloc.so.2"}
	if testing.Short() {
		allocators = allocators[:2] // how others hand out blocks does not depend on the kernel
	}
	for _, name := range allocators {
		t.Run("preload "+name, func(t *testing.T) { pendingBlocks(t, name) })
	}
}

// mallocOf returns where the probe of a process's malloc lies in its memory.
func mallocOf(t *testing.T, pid int, library string) uint64 {
	t.Helper()
	for _, o := range discover(t, pid) {
		for _, f := range o.Probes {
			for _, text := range o.Text {
				if f.Name == "malloc" && strings.Contains(o.Path, library) && f.Offset >= text.Offset && f.Offset-text.Offset < text.End-text.Start {
					return text.Start + f.Offset - text.Offset
				}
			}
		}
	}
	t.Fatalf("no malloc was found, preloaded is %q", library)
	return 0
}

// isPressed reports whether blocks are sampled, as the drain is behind.
func isPressed(t *testing.T, tr *Tracer) bool {
	t.Helper()
	p, err := tr.Pressure()
	if err != nil {
		t.Fatal(err)
	}
	return len(p.Phases) > 0 && p.Phases[len(p.Phases)-1].To == 0
}

// handedOut returns how many threads of a stopped process go on right behind
// malloc's probe, and how many blocks are being handed out, which can't be more than
// there are threads within malloc.
func handedOut(t *testing.T, tr *Tracer, pid int, malloc uint64, at []uint64) (trapped, blocks int) {
	t.Helper()
	const longest, function = 15, 400 // bytes of an instruction, and of malloc up to where it has taken a block
	inside := 0
	for _, ip := range at {
		if ip > malloc && ip <= malloc+longest {
			trapped++
		}
		if ip >= malloc && ip <= malloc+function {
			inside++
		}
	}
	pending, err := tr.Pending(pid)
	if err != nil {
		t.Fatal(err)
	}
	if len(pending) > inside {
		t.Errorf("%d blocks are being handed out to %d threads in malloc", len(pending), inside)
	}
	return trapped, len(pending)
}

func pendingBlocks(t *testing.T, name string) {
	var env []string
	if name != "" {
		env = []string{"LD_PRELOAD=" + library(t, name)}
	}
	p := start(t, env, "handed_out", "4", "0")
	pid := p.cmd.Process.Pid
	place := mallocOf(t, pid, strings.TrimSuffix(name, ".so.2"))
	tr, detach := attached(t, Config{Mechanism: Session, Pressure: 1 << 20}, p)
	defer detach()
	var events atomic.Uint64
	go func() {
		for {
			b, err := tr.Read()
			if errors.Is(err, ErrClosed) {
				return
			}
			events.Add(uint64(len(b.Events)))
			b.Release()
		}
	}()
	p.proceed()
	p.line()
	behind, pending, stops := 0, 0, 50
	if testing.Short() {
		stops = 15
	}
	for deadline := time.Now().Add(2 * time.Minute); stops > 0; {
		if time.Now().After(deadline) {
			loss, err := tr.Loss()
			t.Fatalf("after 2 minutes the program is still to be stopped %d times; lost %+v (%v)", stops, loss, err)
		}
		// Each thread's first predictions are checked.
		for soon := time.Now().Add(time.Second); events.Load() < 1000 && time.Now().Before(soon); {
			time.Sleep(time.Millisecond)
		}
		if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		at := stoppedAt(t, pid)
		if events.Load() >= 1000 && !isPressed(t, tr) {
			trapped, blocks := handedOut(t, tr, pid, place, at)
			behind, pending = behind+trapped, pending+blocks
			stops--
			events.Store(0)
		} else { // four busy threads leave the drain too little of two processors: it catches up
			for isPressed(t, tr) && time.Now().Before(deadline) {
				time.Sleep(time.Millisecond)
			}
		}
		if err := unix.Kill(pid, unix.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d blocks, %d threads", pending, behind)
	if behind < 10 || pending < behind*8/10 {
		t.Errorf("%d blocks were being handed out, %d threads stood behind malloc's probe", pending, behind)
	}
	p.finish()
}
