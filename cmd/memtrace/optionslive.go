//go:build linux && !viewer

package main

import (
	"slices"

	"github.com/memtrace/memtrace/cmd/memtrace/cmdline"
	"github.com/memtrace/memtrace/cmd/memtrace/tui/top"
	"github.com/memtrace/memtrace/tracer/probe"
)

// liveDetails are those of options whose values only the packages know that trace or look at the live machine.
func liveDetails() map[string]cmdline.Detail {
	return map[string]cmdline.Detail{
		"allocator":  {Group: groupWhat, Metavar: "FAMILY", Words: families()},
		"layer":      {Group: groupWhat, Metavar: "LAYER", Words: probe.Layers()},
		"view":       {Group: groupShow, Metavar: "VIEW", Words: top.Views()},
		"top sort":   {Group: groupShow, Metavar: "COLUMN", Hints: topColumns()},
		"top format": {Group: groupShow, Metavar: "FORMAT", Words: top.Formats()},
		"at-exit":    {Group: groupLeaks, Metavar: "WHEN", Words: exitTimes},
	}
}

// topColumns are the columns of all views of top.
func topColumns() []string {
	var out []string
	for _, view := range top.Views() {
		out = append(out, top.View(view).SortKeys()...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
