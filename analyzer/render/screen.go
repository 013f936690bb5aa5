package render

import (
	"slices"

	"github.com/memtrace/memtrace/analyzer/report"
)

// Screen lays r out in at most rows lines of at most opt.Width columns, for a
// terminal view that is repainted. The processes come first and losses last;
// in between, leaks get up to a third of what is left, what the first of them
// takes, or what the tables leave over, and the tables of sites, regions and
// pools the rest.
// Lines carry no newline; colour only with opt.Color.
func Screen(r *report.Report, opt Options, rows int) []string {
	s := screen{r, opt}
	top := s.processes(rows)
	bottom := s.part(func(p *page) { addLosses(p, r) })
	left := rows - len(top) - len(bottom) - 2 // two blank lines
	if left < 4 {
		return squeezed(top, bottom, rows)
	}
	first := s.part(func(p *page) { addLeaks(p, r, 1) })
	leaks := s.leaks(max(left/3, left-len(s.tables(left)), min(len(first), left-leastSites)))
	left -= len(leaks)
	tables := s.tables(left)

	out := append(top, "")
	out = append(out, tables...)
	for pad := left - len(tables); pad > 0; pad-- {
		out = append(out, "") // keeps leaks and losses at the bottom
	}
	out = append(out, "")
	out = append(out, leaks...)
	out = append(out, bottom...)
	return out[:min(len(out), rows)]
}

// screen lays out the parts of a Report for a terminal.
type screen struct {
	r   *report.Report
	opt Options
}

func (s screen) part(add func(*page)) []string {
	p := &page{width: s.opt.Width, color: s.opt.Color}
	add(p)
	return p.lines
}

// squeezed fits the two parts nobody may miss into a terminal too small for more.
func squeezed(top, bottom []string, rows int) []string {
	if rows <= 0 {
		return nil
	}
	top = top[:min(len(top), max(rows-1, 0))]
	bottom = bottom[:min(len(bottom), rows-len(top))]
	return append(top, bottom...)
}

// processes describes each process, or lists them in at most a third of the
// rows where that would leave too few of them for the tables.
func (s screen) processes(rows int) []string {
	poolless := *s.r // pools have a table of their own
	poolless.Processes = slices.Clone(s.r.Processes)
	for i := range poolless.Processes {
		poolless.Processes[i].Pools, poolless.Processes[i].PoolsMore = nil, 0
	}
	described := s.part(func(p *page) { addProcesses(p, &poolless) })
	if len(s.r.Processes) < 2 || len(described) <= rows/2 {
		return described
	}
	return s.part(func(p *page) { addProcessTable(p, s.r, max(rows/3, 4)) })
}

// leaks takes as many leaks as fit into rows lines, at least the title.
func (s screen) leaks(rows int) []string {
	for limit := min(len(s.r.Leaks), rows); ; limit-- {
		lines := s.part(func(p *page) { addLeaks(p, s.r, limit) })
		if len(lines) <= rows || limit <= 0 {
			return lines[:min(len(lines), max(rows, 1))]
		}
	}
}

// sites is the table of sites, or of mappings where no allocation is seen.
func (s screen) sites(rows int) []string {
	fit := s.opt
	if allUnprobed(s.r) {
		fit.Top = max(1, rows-3) // a title, a heading and the count of the others
		lines := s.part(func(p *page) { addMappings(p, s.r, fit) })
		return lines[:min(len(lines), rows)]
	}
	fit.Top = rowsFor(s.r, s.opt.Top, rows)
	return s.part(func(p *page) { addTable(p, s.r, fit) })
}

// rowsFor is the number of sites, or groups of them, that fit into rows lines with a heading and,
// where some stay out, a line that counts them.
func rowsFor(r *report.Report, top, rows int) int {
	all, more := len(r.Sites), r.SitesMore
	if r.By != "" {
		all, more = len(r.Groups), r.GroupsMore
	}
	n := all
	if top > 0 {
		n = min(n, top)
	}
	if n+1 <= rows && n == all && more == 0 {
		return n
	}
	return max(1, min(n, rows-2))
}
