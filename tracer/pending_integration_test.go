//go:build integration

package tracer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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
	needSession(t)
	const threads = 4
	p := start(t, nil, "handed_out", fmt.Sprint(threads), "0")
	pid := p.cmd.Process.Pid
	var place uint64
	for _, o := range discover(t, pid) {
		for _, f := range o.Probes {
			for _, text := range o.Text {
				if f.Name == "malloc" && f.Offset >= text.Offset && f.Offset-text.Offset < text.End-text.Start {
					place = text.Start + f.Offset - text.Offset
				}
			}
		}
	}
	if place == 0 {
		t.Fatal("malloc was not found")
	}
	tr, detach := attached(t, Config{Mechanism: Session, Pressure: 1 << 20}, p)
	defer detach()
	go func() {
		for {
			b, err := tr.Read()
			if errors.Is(err, ErrClosed) {
				return
			}
			b.Release()
		}
	}()
	p.proceed()
	p.line()
	behind, pending := 0, 0
	for range 50 {
		if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		now := 0
		for _, at := range stoppedAt(t, pid) {
			const longest = 15 // bytes of an instruction
			if at > place && at <= place+longest {
				now++
			}
		}
		blocks, err := tr.Pending(pid)
		if err != nil {
			t.Fatal(err)
		}
		if len(blocks) > now {
			t.Errorf("%d blocks are being handed out to %d threads behind malloc's probe", len(blocks), now)
		}
		behind, pending = behind+now, pending+len(blocks)
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
