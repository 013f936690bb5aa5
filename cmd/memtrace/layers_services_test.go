//go:build integration && services

package main

import (
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
)

// Blocks of APR's pools are their callers' and end with their pools, those
// within them included.
func TestAPRLayer(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"uprobe_session", "uprobe_multi", "perf_cookie"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			c, r := runWith(t, []string{"--layer", "apr", "--attach", how}, testProgram("layer_apr"))
			c.checkSites(t, &r)
			if r.Events.Lost != 0 || r.Events.Overwritten != 0 || r.Events.UnmatchedFree != 0 || len(r.Warnings) > 0 {
				t.Errorf("events %+v, warnings %q", r.Events, r.Warnings)
			}
			if r.Events.PoolFree != 49*10+9+1 {
				t.Errorf("%d blocks ended with their pool, want 500", r.Events.PoolFree)
			}
			for name, want := range map[string]report.Pool{
				"request": {Pools: 1, LiveCount: 10, LiveBytes: 3000},
				"outer":   {Pools: 1, LiveCount: 5, LiveBytes: 5 * 1024},
				"of main": {Pools: 1, LiveCount: 8 + 8 + 6 + 1, LiveBytes: 8*300 + 6*13 + 16},
			} {
				want.Name = name
				if got := poolOf(&r.Processes[0], name); got != want {
					t.Errorf("pools %s: %+v, want %+v", name, got, want)
				}
			}
			if t.Failed() {
				t.Logf("%+v", r.Processes[0].Pools)
			}
		})
	}
}

// GLib's blocks are its callers', whether slices are cut from larger blocks or,
// as with later versions of GLib, are blocks of malloc's.
func TestGLibLayer(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"uprobe_session", "uprobe_multi", "perf_cookie"} {
		for _, slices := range []string{"", "always-malloc"} {
			t.Run(how+slices, func(t *testing.T) {
				t.Parallel()
				env := []string{"G_SLICE=" + slices}
				if how == "perf_cookie" {
					env = append(env, "CHAIN=32") // what is followed there
				}
				c, r := runAnswering(t, env, []string{"--layer", "glib", "--attach", how, "--top", "1000"}, []string{testProgram("layer_glib"), "run"})
				c.checkSites(t, &r)
				if r.Events.Lost != 0 || r.Events.Overwritten != 0 || r.Events.UnmatchedFree != 0 || len(r.Warnings) > 0 {
					t.Errorf("events %+v, warnings %q", r.Events, r.Warnings)
				}
			})
		}
	}
}

// A chain that is too long for the kernel is a loss, and said to be.
func TestGLibChainTooLong(t *testing.T) {
	t.Parallel()
	_, r := runAnswering(t, []string{"CHAIN=40"}, []string{"--layer", "glib", "--attach", "perf_cookie"}, []string{testProgram("layer_glib"), "run"})
	if r.Events.LostBy.ReadFault != 1 {
		t.Errorf("events %+v, want a read fault", r.Events)
	}
}
