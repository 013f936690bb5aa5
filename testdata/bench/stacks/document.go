package main

import (
	"fmt"
	"strings"
)

type row struct {
	name, what string
	*report
}

func share(n, of uint64) float64 { return float64(n) / float64(max(of, 1)) }

const intro = `## Where the stacks of real programs end

Written by ` + "`sudo make bench-stacks`" + `. Each program ran under ` + "`memtrace run`" + ` from its first instruction, children included,
all allocations, 127 frames at most, tables from disk or made as files were met. *Bottom* is the outermost frame of a thread; *by frame
pointers* are those of them for which a frame pointer was needed somewhere; *deeper* stacks go on beyond 127 frames; *broken off* are those
through code whose table was not there yet, or that has none. *Tables* are what memtrace made of how much .eh_frame (and .debug_frame),
each file once, the most at a time.

| program | load | stacks | bottom | by frame pointers | deeper | broken off | none | tables | of .eh_frame |
|---|---|---:|---:|---:|---:|---:|---:|---:|---:|
`

// document is the section.
func document(rows []row, missing []string) string {
	var b strings.Builder
	b.WriteString(intro)
	var sum report
	for _, r := range rows {
		line(&b, r.name, r.what, r.report)
		sum.Stacks.Bottom += r.Stacks.Bottom
		sum.Stacks.Deeper += r.Stacks.Deeper
		sum.Stacks.Broken += r.Stacks.Broken
		sum.Stacks.None += r.Stacks.None
		sum.Stacks.FPBottom += r.Stacks.FPBottom
		sum.Stacks.FramePointers += r.Stacks.FramePointers
	}
	line(&b, "all", "", &sum)
	if len(missing) > 0 {
		fmt.Fprintf(&b, "\nNot on this machine: %s.\n", strings.Join(missing, ", "))
	}
	return b.String()
}

func line(b *strings.Builder, name, what string, r *report) {
	s := &r.Stacks
	all := r.all()
	fmt.Fprintf(b, "| %s | %s | %d | %.3f %% | %d | %d | %d | %d |", name, what, all, 100*share(s.Bottom+s.FPBottom, all), s.FPBottom, s.Deeper, s.Broken+s.FramePointers, s.None)
	if r.Tracer.Source > 0 {
		fmt.Fprintf(b, " %d KiB | %.0f %% |\n", r.Tracer.Tables>>10, 100*share(r.Tracer.Tables, r.Tracer.Source))
	} else {
		b.WriteString(" | |\n")
	}
}
