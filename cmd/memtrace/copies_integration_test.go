//go:build integration

package main

import (
	"path/filepath"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
)

// A server with more blocks than are copied for a child: what an inherited
// block points to is not lost, though nothing is known of that block there.
func TestPreforkServerOfManyBlocks(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "report")
	_, code := runLeaks(t, "run", "--fail-on", "definite", "--format", "json", "--report", file, "--", testProgram("late_link"), "run")
	r := readReport(t, file)
	if code != 0 || r.Events.Lost != 0 || r.Pressure != nil {
		t.Errorf("exit code %d, lost %+v, pressure %+v", code, r.Events.LostBy, r.Pressure)
	}
	for _, l := range r.Leaks {
		if report.IsVerdict(l.Kind) {
			t.Errorf("%s: %d blocks of %s: %s", l.Kind, l.Count, siteFunctionOf(r, l.Site), l.Why)
		}
	}
	last := r.Processes[len(r.Processes)-1]
	if !last.Attached || last.Heap.LiveCount != 1 || last.LeakCheck == nil {
		t.Errorf("the last child: attached %v, %d blocks live, checked %+v; want its own block alone, and blocks from before", last.Attached, last.Heap.LiveCount, last.LeakCheck)
	}
}
