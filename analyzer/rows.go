package analyzer

import "github.com/memtrace/memtrace/analyzer/report"

// To name a stack can take long where there is much debug information, and a Report
// must not come late. What is looked at for rows and groups is bounded, so.
const (
	// mergedAmong is how many sites, the first in the order asked for, the last Report looks at for such
	// as print alike, where --top asks for fewer.
	mergedAmong = 512

	// groupedNames is how many stacks a Report that is not the last one asks names of for its
	// groups, at most. The other sites are in a group of those that have no names yet.
	groupedNames = 64
)

// grouped reports whether sites are grouped.
func (o ReportOptions) grouped() bool { return o.By != "" && o.By != report.BySite }

// shown is how many sites, the first in their order, may get rows of their own; 0: all.
func (o ReportOptions) shown() int {
	if o.Top > 0 && o.Final {
		return max(o.Top, mergedAmong)
	}
	return o.Top
}

// listSites lists the sites that are shown or counted in a group.
func (a *Analyzer) listSites(d *draft) {
	top := d.opt.shown()
	if d.opt.grouped() {
		top = 0
	}
	r := d.report
	d.leaking = make(map[int]bool, len(r.Leaks))
	for i := range r.Leaks {
		d.leaking[r.Leaks[i].Site] = true
	}
	a.reportSites(r, top, d.opt.Sort, d.opt.EndedAt, d.leaking)
}

// aside reports whether the site at i is listed for its group alone, and can do without a name.
func (d *draft) aside(i int) bool {
	o := d.opt
	if !o.grouped() || o.Top == 0 || i < o.shown() || d.leaking[d.report.Sites[i].ID] {
		return false
	}
	return !o.Final || o.By == report.BySize
}

// askForSites asks for the names of the sites that are listed.
func (a *Analyzer) askForSites(q *stackQuestions, d *draft) {
	for i := range d.report.Sites {
		out := &d.report.Sites[i]
		if d.aside(i) && (d.opt.By == report.BySize || len(q.out) >= groupedNames) {
			continue
		}
		if s := a.sites.at(siteID(out.ID)); !s.other {
			q.ask(out.PID, s.image, s.stack)
		}
	}
}

// nameSites names the sites that are listed, and makes rows and groups of them.
func (a *Analyzer) nameSites(d *draft) {
	r := d.report
	for i := range r.Sites {
		out := &r.Sites[i]
		a.name(out)
		if d.aside(i) && len(out.Stack) > 0 && !a.isNamed(a.sites.at(siteID(out.ID))) {
			out.Function, out.FunctionFrame, out.Stack = report.NotNamedYet, 0, []*report.Frame{}
		}
	}
	added := a.addGoSites(r)
	if mergeSites(r) || added {
		r.Sort(d.opt.Sort)
	}
	r.GroupBy(d.opt.By, d.opt.Sort, d.opt.Top)
	r.LimitSites(d.opt.Top)
}

// isNamed reports whether a site's stack has names.
func (a *Analyzer) isNamed(s *site) bool {
	ref, ok := s.image.stack(s.stack)
	if ok {
		_, ok = a.knownNames(ref)
	}
	return ok
}
