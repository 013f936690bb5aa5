//go:build linux && !viewer

package main

import (
	"testing"

	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/tracer/probe"
)

// A child that stands still at its exec is not said to have run without probes, however often it is looked at before
// its exec event is read. One that has run without is said to.
func TestChildAtItsExecHasNotRun(t *testing.T) {
	s, child := jobOf(t, "definite", false)
	s.follower = &follower{session: s, code: make(map[int]procfs.CodeSum)}
	s.attacher.probed[child.pid] = []probe.Object{{Inode: 1}}
	news := []probe.Object{{Inode: 2, Path: "/bin/other"}}
	s.attacher.held[child.pid] = true
	for range 3 {
		if got, ok := s.lateNews(child, found{}, news); ok || len(got) > 0 || len(s.warnings) > 0 {
			t.Fatalf("%v, %v: %q", got, ok, s.warnings)
		}
	}
	s.attacher.execResumed(child.pid)
	if got, ok := s.lateNews(child, found{}, news); !ok || len(got) != 1 || len(s.warnings) != 1 {
		t.Errorf("%v, %v: %q", got, ok, s.warnings)
	}
}
