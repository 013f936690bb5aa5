//go:build linux && !viewer

package main

import (
	"slices"
	"testing"

	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/tracer"
	"github.com/memtrace/memtrace/tracer/probe"
)

// TestObjectsMoveWithAnExec: a new program has its files elsewhere than the one before, and its
// children have them where it has. What was handed out before stays as it was.
func TestObjectsMoveWithAnExec(t *testing.T) {
	fs, err := procfs.New("/proc")
	if err != nil {
		t.Fatal(err)
	}
	f := newAttacher(&tracer.Tracer{}, fs, false)
	before, after := []probe.Range{{Start: 0x1000, End: 0x2000}}, []probe.Range{{Start: 0x7000, End: 0x8000}}
	f.probed[1] = []probe.Object{{Inode: 1, Text: before}, {Inode: 2, Text: before}}
	handed := f.of(1)
	f.unmap(1)
	f.relocate(1, []probe.Object{{Inode: 2, Text: after}, {Inode: 3, Text: after}})
	f.relocate(2, []probe.Object{{Inode: 2, Text: after}})
	if got := f.of(1); len(got) != 2 || len(got[0].Text) != 0 || !slices.Equal(got[1].Text, after) {
		t.Errorf("after the exec %+v, want the first nowhere, the second at %v", got, after)
	}
	if !slices.Equal(handed[0].Text, before) || !slices.Equal(handed[1].Text, before) {
		t.Errorf("what was handed out before is %+v now", handed)
	}
	if _, known := f.knownOf(2); known {
		t.Error("a process that was not attached to is known")
	}
}
