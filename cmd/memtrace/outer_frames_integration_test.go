//go:build integration

package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
)

// Stacks whose outer frames alone differ are never taken for one another, though
// the unwinder takes over from one walk to the next what is unchanged.
func TestOuterFrames(t *testing.T) {
	t.Parallel()
	c := program(t, "outer_frames")
	tr := attach(t, c.cmd.Process.Pid)
	if err := c.proceed(); err != nil {
		t.Fatal(err)
	}
	r := tr.interrupt()
	if err := c.end(); err != nil {
		t.Error(err)
	}
	sites := c.answer["sites"].([]any)
	if len(sites) != 4 || r.Events.Lost != 0 {
		t.Fatalf("%d sites, %d events lost", len(sites), r.Events.Lost)
	}
	for _, s := range sites {
		site := s.(map[string]any)
		name, want := site["function"].(string), uint64(site["alloc"].(float64))
		outer, middle, _ := strings.Cut(name, "/")
		var got uint64
		for i := range r.Sites {
			if through(r.Sites[i].Stack, outer) && through(r.Sites[i].Stack, middle) {
				got += r.Sites[i].AllocCount
			}
		}
		if got != want || want == 0 {
			t.Errorf("%s: %d blocks, want %d", name, got, want)
		}
	}
}

func through(stack []*report.Frame, function string) bool {
	return slices.ContainsFunc(stack, func(f *report.Frame) bool { return f.Function == function })
}
