package render

import (
	"fmt"
	"strconv"

	"github.com/memtrace/memtrace/analyzer/report"
)

const touchedTitle = "FIRST TOUCHED WHILE THE ALLOCATOR HAD NO PROBES"

// addFirstTouched adds the table of what grew while page faults alone told of it.
func addFirstTouched(p *page, r *report.Report, opt Options) {
	f := r.Touched
	if f == nil || len(f.Sites) == 0 && f.PagesLost == 0 && f.ChildTouches == 0 {
		return
	}
	limit := topRegions
	if opt.Top > 0 {
		limit = min(limit, opt.Top)
	}
	p.line(plain, "")
	p.line(bold, touchedTitle)
	p.prose(plain, "", touchedSum(r))
	if len(f.Sites) > 0 {
		addTouchedTable(p, r, f.Sites[:min(limit, len(f.Sites))])
	}
	if more := max(len(f.Sites)-limit, 0) + f.SitesMore; more > 0 {
		p.line(dim, "and "+counted(uint64(more), "more site", "more sites"))
	}
}

// touchedSum says how that compares with what the processes have grown by.
func touchedSum(r *report.Report) string {
	f := r.Touched
	text := fmt.Sprintf("%s in %s of the %s that were touched then are still there.", size(f.Bytes), counted(f.Count, "page", "pages"), size(f.TouchedBytes))
	if o := r.Overhead; o != nil {
		text += fmt.Sprintf(" RSS changed by %s in these %s.", signed(o.NoneGrowthBytes, size), duration(o.NoneNS))
	}
	if f.PagesLost > 0 {
		text += " There was no room for " + counted(f.PagesLost, "touch", "touches") + "."
	}
	if f.ChildTouches > 0 {
		text += " " + counted(f.ChildTouches, "touch", "touches") +
			" of children that are not listed one by one are not in this."
	}
	return text
}

func addTouchedTable(p *page, r *report.Report, sites []report.TouchedSite) {
	rows := make([]report.Site, len(sites)) // for what they have in common with sites: a name and a place
	for i := range sites {
		s := &sites[i]
		rows[i] = report.Site{ID: i, PID: s.PID, Function: s.Function, FunctionFrame: s.FunctionFrame, Stack: s.Stack}
	}
	cols, room := fitColumns(touchedColumns(r, sites, p.width), rows, p.width)
	nameWidth, fileWidth := splitRoom(rows, room)
	p.line(bold, tableHead(cols, nameWidth, fileWidth))
	for i := range rows {
		p.line(plain, tableRow(cols, i, &rows[i], nameWidth, fileWidth))
	}
}

// touchedColumns are the numeric columns, in order; a row's ID is its place in sites.
func touchedColumns(r *report.Report, sites []report.TouchedSite, width int) []column {
	bytes := shortSize
	if width == 0 || width >= roomyTable {
		bytes = size
	}
	type site = report.Site
	of := func(s *site) *report.TouchedSite { return &sites[s.ID] }
	cols := []column{
		{title: "HELD", keep: 10, cell: func(s *site) string { return bytes(of(s).Bytes) }},
		{title: "PAGES", keep: 7, cell: func(s *site) string { return shortCount(of(s).Count) }},
		{title: "TOUCHED", keep: 6, cell: func(s *site) string { return bytes(of(s).TouchedBytes) }},
	}
	if len(r.Processes) > 1 {
		pid := column{title: "PID", keep: 8, cell: func(s *site) string { return strconv.Itoa(s.PID) }}
		cols = append([]column{pid}, cols...)
	}
	return cols
}
