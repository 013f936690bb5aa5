package render

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/memtrace/memtrace/analyzer/report"
)

// addProcessRows adds a heading and a row for each of the processes.
func addProcessRows(p *page, r *report.Report, shown []report.Process) {
	names := make([]report.Site, len(shown)) // for what they have in common with sites
	for i := range shown {
		names[i] = report.Site{ID: i, Function: commAndExit(&shown[i])}
	}
	cols, room := fitColumns(processColumns(r, shown), names, p.width)
	p.line(bold, tableTitles(cols)+"PROCESS")
	for i := range names {
		p.line(plain, tableRow(cols, i, &names[i], room, 0))
	}
}

// byWeight are processes, those that run and have most in memory first.
func byWeight(all []report.Process) []report.Process {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b report.Process) int {
		switch {
		case a.Exited && !b.Exited:
			return 1
		case b.Exited && !a.Exited:
			return -1
		}
		return cmp.Compare(b.Usage.RSS, a.Usage.RSS)
	})
	return all
}

// commAndExit is a process's name, and how it ended.
func commAndExit(proc *report.Process) string {
	name := cmp.Or(clean(proc.Comm), "?")
	switch {
	case proc.Children > 0:
		return fmt.Sprintf("%s more children of %s", count(uint64(proc.Children)), name)
	case proc.ExitCode != nil:
		return fmt.Sprintf("%s, exited with %d", name, *proc.ExitCode)
	case proc.Exited:
		return name + ", exited"
	}
	return name
}

// processColumns are the numeric columns, in order; a row's ID is its place in shown.
func processColumns(r *report.Report, shown []report.Process) []column {
	// known formats a figure of a process, "?" where nobody could know it.
	known := func(is func(*report.Process) bool, figure func(*report.Process) string) func(*report.Site) string {
		return func(s *report.Site) string {
			if proc := &shown[s.ID]; is(proc) {
				return figure(proc)
			}
			return "?"
		}
	}
	always := func(*report.Process) bool { return true }
	read := func(proc *report.Process) bool { return proc.Usage.SampledNS > 0 }
	seen := func(proc *report.Process) bool { return !proc.Unprobed }
	correlated := func(proc *report.Process) bool { return !proc.Unprobed && proc.Heap.CorrelatedNS > 0 }
	cols := []column{
		{title: "PID", keep: 9, cell: known(always, func(proc *report.Process) string { return strconv.Itoa(proc.PID) })},
		{title: "RSS", keep: 10, cell: known(read, func(proc *report.Process) string { return shortSize(proc.Usage.RSS) })},
		{title: "PSS", keep: 5, cell: known(read, func(proc *report.Process) string { return shortSize(proc.Usage.PSS) })},
		{title: "LIVE", keep: 10, cell: known(seen, func(proc *report.Process) string { return shortSize(proc.Heap.LiveBytes) })},
		{title: "±", keep: 8, cell: known(seen, func(proc *report.Process) string { return shortSize(proc.Heap.Estimate.LiveBytes()) })},
		{title: "COUNT", keep: 7, cell: known(seen, func(proc *report.Process) string { return shortCount(proc.Heap.LiveCount) })},
		{title: "RES", keep: 4, cell: known(correlated, func(proc *report.Process) string { return shortSize(proc.Heap.ResidentBytes) })},
		{title: "ALLOCS", keep: 6, cell: known(seen, func(proc *report.Process) string { return shortCount(proc.Heap.AllocCount) })},
	}
	if r.Sampling == nil {
		cols = slices.DeleteFunc(cols, func(c column) bool { return c.title == "±" })
	}
	return cols
}
