package report

import "github.com/memtrace/memtrace/analyzer"

// Screen lays r out in at most rows lines of at most opt.Width columns, for a
// terminal view that is repainted. The processes come first and losses last;
// in between, leaks get up to a third of what is left, or what sites leave
// over, and sites the rest.
// Lines carry no newline; colour only with opt.Color.
func Screen(r *analyzer.Report, opt Options, rows int) []string {
	part := func(add func(*page)) []string {
		p := &page{width: opt.Width, color: opt.Color}
		add(p)
		return p.lines
	}
	top := part(func(p *page) { addProcesses(p, r) })
	bottom := part(func(p *page) { addLosses(p, r) })
	left := rows - len(top) - len(bottom) - 2 // two blank lines
	if left < 4 {
		return squeezed(top, bottom, rows)
	}
	sitesIn := func(rows int) []string {
		fit := opt
		if allUnprobed(r) {
			fit.Top = max(1, rows-3) // a title, a heading and the count of the others
			lines := part(func(p *page) { addMappings(p, r, fit) })
			return lines[:min(len(lines), rows)]
		}
		fit.Top = sitesFor(r, opt.Top, rows)
		return part(func(p *page) { addSites(p, r, fit) })
	}
	leaks := fitLeaks(part, r, max(left/3, left-len(sitesIn(left))))
	left -= len(leaks)
	sites := sitesIn(left)

	out := append(top, "")
	out = append(out, sites...)
	for pad := left - len(sites); pad > 0; pad-- {
		out = append(out, "") // keeps leaks and losses at the bottom
	}
	out = append(out, "")
	out = append(out, leaks...)
	out = append(out, bottom...)
	return out[:min(len(out), rows)]
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

// fitLeaks takes as many leaks as fit into rows lines, at least the title.
func fitLeaks(part func(func(*page)) []string, r *analyzer.Report, rows int) []string {
	for limit := min(len(r.Leaks), rows); ; limit-- {
		lines := part(func(p *page) { addLeaks(p, r, limit) })
		if len(lines) <= rows || limit <= 0 {
			return lines[:min(len(lines), max(rows, 1))]
		}
	}
}

// sitesFor is the number of sites that fit into rows lines with a heading and,
// where some stay out, a line that counts them.
func sitesFor(r *analyzer.Report, top, rows int) int {
	n := len(r.Sites)
	if top > 0 {
		n = min(n, top)
	}
	if n+1 <= rows && n == len(r.Sites) && r.SitesMore == 0 {
		return n
	}
	return max(1, min(n, rows-2))
}
