package render

import (
	"slices"
	"strconv"

	"github.com/memtrace/memtrace/analyzer/report"
)

// topRegions is how many call sites the table shows at the most.
const topRegions = 10

const regionsTitle = "MAPPED OUTSIDE THE ALLOCATOR"

// regionsInUse are the call sites that have something mapped. What an allocator
// mapped for its blocks is in the table of sites already.
func regionsInUse(r *report.Report) []report.Region {
	return slices.DeleteFunc(slices.Clone(r.Regions), func(g report.Region) bool { return g.Allocator || g.LiveCount == 0 })
}

// addRegions adds the table of what the program maps itself.
func addRegions(p *page, r *report.Report, opt Options) {
	regions := regionsInUse(r)
	if len(regions) == 0 {
		return
	}
	limit := topRegions
	if opt.Top > 0 {
		limit = min(limit, opt.Top)
	}
	more := max(len(regions)-limit, 0) + r.RegionsMore
	p.line(plain, "")
	p.line(bold, regionsTitle)
	addRegionTable(p, r, regions[:min(limit, len(regions))])
	if more > 0 {
		p.line(dim, "and "+counted(uint64(more), "more call site that maps", "more call sites that map"))
	}
}

// addRegionTable adds a heading and a row for each of the regions.
func addRegionTable(p *page, r *report.Report, regions []report.Region) {
	rows := make([]report.Site, len(regions)) // for what they have in common with sites: a name and a place
	for i := range regions {
		g := &regions[i]
		rows[i] = report.Site{ID: i, PID: g.PID, Function: g.Function, Stack: g.Stack}
	}
	cols, room := fitColumns(regionColumns(r, regions, p.width), rows, p.width)
	nameWidth, fileWidth := splitRoom(rows, room)
	p.line(bold, tableHead(cols, nameWidth, fileWidth))
	for i := range rows {
		p.line(plain, tableRow(cols, i, &rows[i], nameWidth, fileWidth))
	}
}

// regionColumns are the numeric columns, in order; a row's ID is its place in regions.
func regionColumns(r *report.Report, regions []report.Region, width int) []column {
	bytes, resident := shortSize, "RES"
	if width == 0 || width >= roomyTable {
		bytes, resident = size, "RESIDENT"
	}
	type site = report.Site
	of := func(s *site) *report.Region { return &regions[s.ID] }
	cols := []column{
		{title: "REGION", keep: 9, cell: func(s *site) string { return "#" + strconv.Itoa(of(s).ID) }},
		{title: resident, keep: 10, cell: func(s *site) string { return bytes(of(s).ResidentBytes) }},
		{title: "MAPPED", keep: 8, cell: func(s *site) string { return bytes(of(s).LiveBytes) }},
		{title: "COUNT", keep: 7, cell: func(s *site) string { return shortCount(of(s).LiveCount) }},
		{title: "Δ", keep: 6, cell: func(s *site) string { return signed(of(s).GrowthBytes, bytes) }},
		{title: "CALLS", keep: 3, cell: func(s *site) string { return shortCount(of(s).MappedCount) }},
		{title: "KIND", keep: 5, cell: func(s *site) string { return clean(of(s).Kind) }},
	}
	if len(r.Processes) > 1 {
		pid := column{title: "PID", keep: 8, cell: func(s *site) string { return strconv.Itoa(s.PID) }}
		cols = append([]column{pid}, cols...)
	}
	return cols
}
