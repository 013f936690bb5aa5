//go:build integration

package main

import (
	"path/filepath"
	"testing"
)

// ownPools describes the functions of testdata/programs/own_pools.c.
var ownPools = []string{
	"--alloc-fn", "pool_alloc:pool=0,size=1", "--alloc-fn", "alloc_here:size=0,pool=current_pool",
	"--free-fn", "pool_clear:pool=0,reset", "--free-fn", "pool_drop:pool=0",
}

// Blocks end with their pools, and what the program does meanwhile counts.
func TestOwnFunctionsOfPools(t *testing.T) {
	path := filepath.Join("..", "..", "build", "testdata", "own_pools")
	for name, more := range map[string][]string{
		"run":              nil,
		"run/uprobe_multi": {"--attach", "uprobe_multi"},
		"run/perf_cookie":  {"--attach", "perf_cookie"},
		"run/perf":         {"--attach", "perf"},
		"run/sampling":     {"--max-overhead", "90%"},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "run/sampling" { // whose figures are exact only while tracing takes little time
				t.Parallel()
			}
			c, r := runWith(t, append(more, ownPools...), path)
			c.checkSites(t, &r)
			if r.Events.Lost != 0 || r.Events.UnmatchedFree != 0 || r.Events.Overwritten != 0 || len(r.Warnings) > 0 {
				t.Errorf("events %+v, warnings %q", r.Events, r.Warnings)
			}
			if r.Events.PoolFree != 30+4*20+7 {
				t.Errorf("%d blocks ended with their pool, want 117", r.Events.PoolFree)
			}
			live := uint64(0)
			for _, pool := range r.Processes[0].Pools {
				live += pool.LiveBytes
			}
			if live != 10*20+20*50+5*33+9+8 {
				t.Errorf("pools hold %d bytes, want 1382", live)
			}
		})
	}
	t.Run("attach", func(t *testing.T) {
		t.Parallel()
		c := program(t, "own_pools")
		tr := attach(t, c.cmd.Process.Pid, ownPools...)
		if err := c.proceed(); err != nil {
			t.Fatal(err)
		}
		r := tr.interrupt()
		if err := c.end(); err != nil {
			t.Error(err)
		}
		c.checkSites(t, &r)
	})
}

// What is in a pool is no leak, nor what only that points to; of the other
// blocks, of_malloc and call_back lose 3 and 2.
func TestOwnFunctionsOfPoolsLeaks(t *testing.T) {
	t.Parallel()
	_, r := runWith(t, append([]string{"--leaks"}, ownPools...), filepath.Join("..", "..", "build", "testdata", "own_pools"))
	functions := map[int]string{}
	for _, s := range r.Sites {
		functions[s.ID] = s.Function
	}
	lost := map[string]uint64{}
	for _, l := range r.Leaks {
		if l.Kind == "definite" || l.Kind == "indirect" || l.Kind == "possible" {
			lost[functions[l.Site]] += l.Count
		}
	}
	if len(lost) != 2 || lost["of_malloc"] != 3 || lost["call_back"] != 2 {
		t.Errorf("leaks by function: %v, want 3 of of_malloc and 2 of call_back", lost)
	}
}
