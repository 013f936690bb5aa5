//go:build linux && !viewer

package main

import (
	"testing"

	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/tracer"
	"github.com/memtrace/memtrace/tracer/probe"
)

// TestNewbornHasItsObjects: a child whose fork was read before it had its probes is stopped at exit
// and exec in the files that it has by now, though the session has not been told of them yet.
func TestNewbornHasItsObjects(t *testing.T) {
	fs, err := procfs.New("/proc")
	if err != nil {
		t.Fatal(err)
	}
	s := &session{targets: map[int]*target{2: {pid: 2, child: true}}, attacher: newAttacher(&tracer.Tracer{}, fs, false)}
	s.attacher.probed[2] = []probe.Object{{Inode: 1}}
	if child := s.attachedChild(2); child == nil || len(child.objects) != 1 {
		t.Errorf("the child is %+v, want one with an object", child)
	}
	if s.attachedChild(3) != nil {
		t.Error("a child whose fork is not known is a target")
	}
}
