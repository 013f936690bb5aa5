package export

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/memtrace/memtrace/analyzer/report"
)

// foldedStack is a stack in one line: frames from the process to the innermost,
// with semicolons between them. Those within names become colons.
func foldedStack(steps []step, inverted bool) string {
	names := make([]string, len(steps))
	for i, s := range steps {
		names[i] = strings.ReplaceAll(s.label, ";", ":")
	}
	if inverted {
		slices.Reverse(names)
	}
	return strings.Join(names, ";")
}

// writeFolded writes a line for each stack that has anything, sorted.
func writeFolded(w io.Writer, r *report.Report, opt Options) error {
	sums := make(map[string]uint64)
	stacks := stacksOf(r)
	for i := range stacks {
		if v := stacks[i].weights[opt.kind().index()].figure(opt.kind()); v > 0 {
			name := foldedStack(stacks[i].path(true), opt.Inverted)
			sums[name] = add(sums[name], v)
		}
	}
	return writeLines(w, sums, func(v uint64) string { return fmt.Sprint(v) })
}

// diffFolded writes two figures a line, as difffolded.pl does: before and after.
func diffFolded(w io.Writer, before, after *report.Report, opt Options) error {
	sums := make(map[string][2]uint64)
	for _, d := range difference(before, after, opt.kind()) {
		name := foldedStack(d.path, opt.Inverted)
		sum := sums[name]
		sums[name] = [2]uint64{add(sum[0], d.before), add(sum[1], d.after)}
	}
	return writeLines(w, sums, func(v [2]uint64) string { return fmt.Sprintf("%d %d", v[0], v[1]) })
}

func writeLines[V any](w io.Writer, sums map[string]V, text func(V) string) error {
	names := make([]string, 0, len(sums))
	for name := range sums {
		names = append(names, name)
	}
	slices.Sort(names)
	out := bufio.NewWriter(w)
	for _, name := range names {
		fmt.Fprintf(out, "%s %s\n", name, text(sums[name]))
	}
	return out.Flush()
}
