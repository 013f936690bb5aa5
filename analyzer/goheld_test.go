package analyzer

import (
	"testing"

	"github.com/memtrace/memtrace/analyzer/input"
)

// A recording that begins later knows a Go program's stacks, and what the last reading before said of them.
func TestCheckpointHasTheGoHeap(t *testing.T) {
	full := newTestAnalyzer(t)
	full.give(input.GoStacks{PID: testPID, Stacks: []input.GoStack{goStack(1, "main.f", "main.main"), goStack(2, "main.g"), goStack(3, "main.gone")}})
	full.give(goReading(512<<10, map[uint32]uint64{1: 800, 3: 8}))
	full.give(goReading(512<<10, map[uint32]uint64{1: 8000, 2: 800, 9: 16}))
	part := New(Config{Start: testStart})
	t.Cleanup(part.Close)
	if err := full.Checkpoint(testStart + 40).Inputs(func(in input.Input) error { part.Take(input.Copy(in)); return nil }); err != nil {
		t.Fatal(err)
	}
	for i, later := range []map[uint32]uint64{nil, {1: 8800, 2: 80, 3: 160}} {
		if later != nil {
			full.give(goReading(512<<10, later))
			part.Take(goReading(512<<10, later))
		}
		part.Take(input.Instant{Now: testStart + 50})
		want, got := goSitesOf(full.reportAt(testStart+50, ReportOptions{}, nil)), goSitesOf(part.Report(ReportOptions{}))
		if len(got) == 0 || len(got) != len(want) {
			t.Errorf("reading %d: %d sites, want %d", i, len(got), len(want))
		}
		for function, w := range want {
			if g := got[function]; g.LiveBytes != w.LiveBytes || g.AllocBytes != w.AllocBytes || len(g.Stack) != len(w.Stack) || g.Basis != w.Basis {
				t.Errorf("reading %d: %s: %+v, want %+v", i, function, g, w)
			}
		}
	}
}
