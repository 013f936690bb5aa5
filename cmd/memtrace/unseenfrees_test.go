//go:build linux && !viewer

package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/memtrace/memtrace/analyzer/heapwalk"
	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/tracer"
	"github.com/memtrace/memtrace/tracer/event"
	"github.com/memtrace/memtrace/tracer/probe"
)

// TestFreesThatGotNoProbe: a process in which free could not get its probe has none, and gets it at the next try.
func TestFreesThatGotNoProbe(t *testing.T) {
	fs, err := procfs.New(procfs.DefaultRoot)
	if err != nil {
		t.Fatal(err)
	}
	a := newAttacher(&tracer.Tracer{}, fs, false)
	a.probed[1] = []probe.Object{{Inode: 1}}
	failed, reason := errors.New("no"), errors.New("another allocator")
	for try, want := range []struct {
		err   error
		asked bool // for the probes
	}{{failed, true}, {failed, true}, {nil, true}, {nil, false}} {
		asked := false
		err := a.keepFreesBy(func(pid int, objects []probe.Object) error {
			asked = pid == 1 && len(objects) == 1
			return want.err
		}, 1, reason)
		has := want.err == nil
		if !errors.Is(err, want.err) || asked != want.asked || a.keepsFrees(1) != has || (len(a.notes) > 0) != has {
			t.Errorf("try %d: %v (asked %v), want %+v; it has probes on free: %v, notes %q",
				try, err, asked, want, a.keepsFrees(1), a.notes)
		}
	}
}

// TestLacksHeap: a process has no heap once none was found at five looks in a row, unless one was found in the program
// that it executes now.
func TestLacksHeap(t *testing.T) {
	const pid = 7
	p := &target{pid: pid}
	f := &follower{session: &session{targets: map[int]*target{pid: p}, ptracedByOther: map[int]bool{pid: true}}}
	lacks := func(after int) {
		t.Helper()
		for look := 1; look <= after; look++ {
			if got := p.lacksHeap(); got != (look == after) {
				t.Errorf("look %d of %d: %v", look, after, got)
			}
		}
	}
	lacks(heaplessLooks)
	f.execed(event.Event{Kind: event.Exec, PID: pid, Child: pid})
	for range heaplessLooks - 1 {
		p.lacksHeap()
	}
	p.lookedThrough(0) // which asked for nothing
	lacks(1)
	f.execed(event.Event{Kind: event.Exec, PID: pid, Child: pid})
	p.lacksHeap()
	p.lookedThrough(3)
	for look := range 3 * heaplessLooks {
		if p.lacksHeap() {
			t.Fatalf("look %d: it has none, and had one", look)
		}
	}
	f.execed(event.Event{Kind: event.Exec, PID: pid, Child: pid})
	lacks(heaplessLooks)
}

// TestLooksThatFailed: no heap is no matter at a look at a process that runs, and is told of one that stands still,
// after which there may be no other look.
func TestLooksThatFailed(t *testing.T) {
	none := fmt.Errorf("look: %w", heapwalk.ErrNoArena)
	p := &target{}
	for look := range 2 * heaplessLooks {
		if got := p.failedLook(none, true); got != lookMissed {
			t.Fatalf("look %d at a process that stands still: %d", look, got)
		}
	}
	for look := range heaplessLooks {
		want := lookLater
		if look == heaplessLooks-1 {
			want = lookHopeless
		}
		if got := p.failedLook(none, false); got != want {
			t.Errorf("look %d at a process that runs: %d, want %d", look, got, want)
		}
	}
	for _, still := range []bool{true, false} {
		if got := p.failedLook(heapwalk.ErrTooMuch, still); got != lookHopeless {
			t.Errorf("a heap that leads round and round (still %v): %d", still, got)
		}
	}
}
