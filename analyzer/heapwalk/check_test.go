package heapwalk

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/analyzer/reach"
	"github.com/memtrace/memtrace/procfs"
)

// stopAll stops the threads of a process until the test's end.
func stopAll(t testing.TB, p *procfs.Process) (out []reach.Thread) {
	t.Helper()
	runtime.LockOSThread() // up to the detach, which only this thread can do: cleanups run after what the test defers
	t.Cleanup(func() {
		for _, thread := range out {
			_ = unix.PtraceDetach(thread.TID)
		}
		runtime.UnlockOSThread()
	})
	tids, err := p.Tasks()
	if err != nil {
		t.Fatal(err)
	}
	for _, tid := range tids {
		thread, err := reach.Stop(tid)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, thread)
	}
	return out
}

// checkLost requires that what the program lost is definite, and nothing else.
func (c *truth) checkLost(t *testing.T, r *Result) {
	t.Helper()
	found := make(map[uint64]bool)
	for _, l := range r.Leaks {
		found[l.Addr] = true
		if l.Kind == reach.Definite && !c.lost[l.Addr] {
			t.Errorf("block %#x of %d bytes is %v, but was not lost", l.Addr, l.Size, l.Kind)
		}
		if g := r.Heap.Groups[l.Group]; g.Size != l.Size {
			t.Errorf("block %#x of %d bytes is in a group of %d", l.Addr, l.Size, g.Size)
		}
	}
	for addr, lost := range c.lost {
		if lost && !found[addr] {
			t.Errorf("block %#x of %d bytes was lost and is not found", addr, c.blocks[addr])
		}
	}
	t.Logf("%d leaks, %d looks, cleared %+v, %v", len(r.Leaks), r.Looks, r.Cleared, r.Took)
}

func TestCheckStopped(t *testing.T) {
	c := startTruth(t, buildTruth(t), nil)
	r, err := Check(t.Context(), c.process, CheckOptions{Threads: stopAll(t, c.process)})
	if err != nil {
		t.Fatal(err)
	}
	c.checkLost(t, r)
}

func TestCheckRunning(t *testing.T) {
	c := startTruth(t, buildTruth(t), nil)
	r, err := Check(t.Context(), c.process, CheckOptions{Apart: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	c.checkLost(t, r)
}
