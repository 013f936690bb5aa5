package heapwalk

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/memtrace/memtrace/procfs"
)

// forged starts the program that forges malloc's records, and returns two blocks that
// it has.
func forged(t *testing.T, kind string) (*procfs.Process, [2]uint64) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "forged_arenas")
	compile(t, "gcc", "-O1", "-fno-builtin", "-o", program, programs+"/forged_arenas.c")
	return startTwoBlocks(t, program, kind)
}

// startTwoBlocks starts a program that prints the addresses of two blocks, and waits.
func startTwoBlocks(t *testing.T, program string, args ...string) (*procfs.Process, [2]uint64) {
	t.Helper()
	cmd := exec.Command(program, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	var blocks [2]uint64
	if _, err := fmt.Fscanf(out, "0x%x 0x%x", &blocks[0], &blocks[1]); err != nil {
		t.Fatal(err)
	}
	fs, err := procfs.New(procfs.DefaultRoot)
	if err != nil {
		t.Fatal(err)
	}
	p, err := fs.Process(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p, blocks
}

// TestForgedBins: 16 MB of what looks like bins in front of libc's data cost a few
// calls, and the real heap is found behind them.
func TestForgedBins(t *testing.T) {
	p, blocks := forged(t, "bins")
	m, err := openMemory(p, p.PID(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer m.close()
	before := m.budget
	if _, err := m.findArenas(); err != nil {
		t.Fatal(err)
	}
	calls, bytes := before.calls-m.budget.calls, before.bytes-m.budget.bytes
	if calls > 1000 || bytes > 64<<20 {
		t.Errorf("finding the heap took %d calls and %d bytes", calls, bytes)
	}
	h, err := Walk(p, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, addr := range blocks {
		if _, ok := h.blocks.find(addr); !ok {
			t.Errorf("block %#x is not found", addr)
		}
	}
}

// TestForgedRings: lists of arenas that never lead back end the search, which says so.
func TestForgedRings(t *testing.T) {
	p, _ := forged(t, "rings")
	m, err := openMemory(p, p.PID(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer m.close()
	before := m.budget.calls
	if _, err := m.findArenas(); err == nil || !m.budget.spent || before-m.budget.calls > searchCalls {
		t.Errorf("%v after %d calls", err, before-m.budget.calls)
	}
	if _, err := Walk(p, Options{}); !errors.Is(err, ErrTooMuch) {
		t.Errorf("Walk: %v", err)
	}
}

// TestRegionsApart: what one list of heaps says twice is gone through once.
func TestRegionsApart(t *testing.T) {
	of := func(start, end uint64) region { return region{span: span{start, end}} }
	got := apart([]region{of(0, 100), of(10, 20), of(30, 40), of(100, 120), of(110, 130)})
	if len(got) != 2 || got[0].end != 100 || got[1].end != 120 {
		t.Errorf("%+v", got)
	}
}
