//go:build linux && !viewer

package main

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/tracer"
)

// Children that run and whose parent has ended before they could be attached to are
// counted together, in one warning, while they live and afterwards.
func TestParentlessChildrenAreCounted(t *testing.T) {
	fs, err := procfs.New("/proc")
	if err != nil {
		t.Fatal(err)
	}
	a := analyzer.New(analyzer.Config{})
	defer a.Close()
	s := &session{fs: fs, analyzer: a, targets: make(map[int]*target), attacher: newAttacher(&tracer.Tracer{}, fs, false)}
	for n := range 3 {
		child := exec.Command("sleep", "600")
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _, _ = child.Process.Kill(), child.Wait() }()
		pid := child.Process.Pid
		held, err := holdTarget(fs, pid)
		if err != nil {
			t.Fatal(err)
		}
		defer held.close()
		held.child = true
		s.targets[pid] = held
		s.childAttached(found{search: search{pid: pid, child: true}, err: fmt.Errorf("attach to process %d: %w", pid, errNoParent)})
		texts := s.missedChildren()
		if want := children(n + 1); len(s.warnings) != 0 || len(texts) != 1 || !strings.HasPrefix(texts[0], want+" could not be attached to") {
			t.Errorf("warnings %q and %q, want one of %s", s.warnings, texts, want)
		}
	}
	for _, gone := range s.targets {
		gone.exited = true
		s.missed++ // see forget
		break
	}
	if texts := s.missedChildren(); !slices.Contains(texts, children(3)+" could not be attached to, or ended before: the allocations were not seen") {
		t.Errorf("%q after one has ended", texts)
	}
}
