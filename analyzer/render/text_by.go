package render

import (
	"strconv"
	"strings"

	"github.com/memtrace/memtrace/analyzer/report"
)

// addTable adds the table of call sites, or of the groups that they were asked for in.
func addTable(p *page, r *report.Report, opt Options) {
	if r.By == "" {
		addSites(p, r, opt)
		return
	}
	groups := r.Groups
	if opt.Top > 0 && opt.Top < len(groups) {
		groups = groups[:opt.Top]
	}
	if len(groups) == 0 {
		p.line(bold, "Sites: no allocation seen yet")
		return
	}
	addGroupRows(p, r, groups)
	if more := len(r.Groups) - len(groups) + r.GroupsMore; more > 0 {
		p.line(dim, "and "+counted(uint64(more), "more group", "more groups"))
	}
}

// addGroupRows adds a heading and a row for each of the groups.
func addGroupRows(p *page, r *report.Report, groups []report.Group) {
	cols, room := fitTable(groupedColumns(r, p.width), groups, p.width)
	p.line(bold, tableTitles(cols)+strings.ToUpper(r.By))
	for i := range groups {
		var b strings.Builder
		for _, c := range cols {
			b.WriteString(pad(c.cells[i], c.width, true) + " ")
		}
		p.line(plain, b.String()+groupedName(r, &groups[i], room))
	}
}

// groupedName is what a group is called, in at most room columns (0: no limit).
func groupedName(r *report.Report, g *report.Group, room int) string {
	switch {
	case r.By == "size":
		return "up to " + size(g.Size)
	case r.By == "file" || r.By == "module":
		if room > 0 {
			return elidePath(clean(g.Key), room)
		}
		return clean(g.Key)
	}
	return elide(clean(g.Key), room)
}

// groupedColumns are the numeric columns of a table of groups. Of sizes only the number
// of allocations is known.
func groupedColumns(r *report.Report, width int) []columnOf[report.Group] {
	bytes, resident := shortSize, "RES"
	if width == 0 || width >= roomyTable {
		bytes, resident = size, "RESIDENT"
	}
	type group = report.Group
	sites := columnOf[group]{title: "SITES", keep: 6, cell: func(g *group) string { return strconv.Itoa(g.Sites) }}
	allocs := columnOf[group]{title: "ALLOCS", keep: 7, cell: func(g *group) string { return shortCount(g.AllocCount) }}
	if r.By == "size" {
		return []columnOf[group]{allocs, sites}
	}
	cols := []columnOf[group]{
		{title: "LIVE", keep: 10, cell: func(g *group) string { return bytes(g.LiveBytes) }},
		{title: "±", keep: 8, cell: func(g *group) string { return bytes(g.Estimate.LiveBytes()) }},
		{title: "SAMPLES", keep: 6, cell: func(g *group) string { return shortCount(g.Estimate.LiveOf()) }},
		{title: "COUNT", keep: 7, cell: func(g *group) string { return shortCount(g.LiveCount) }},
		{title: "Δ", keep: 8, cell: func(g *group) string { return signed(g.GrowthBytes, bytes) }},
		{title: resident, keep: 4, cell: func(g *group) string { return bytes(g.ResidentBytes) }},
		allocs,
		{title: "FREES", keep: 3, cell: func(g *group) string { return shortCount(g.FreeCount) }},
		{title: "TEMP", keep: 2, cell: func(g *group) string {
			if r.UnseenFrees() {
				return "?"
			}
			return percent(g.TemporaryCount, g.AllocCount)
		}},
		{title: "OLDEST", keep: 5, cell: func(g *group) string { return ageOf(g.LiveCount, g.OldestNS) }},
		sites,
	}
	if !estimated(r) {
		cols = append(cols[:1:1], cols[3:]...)
	}
	return cols
}
