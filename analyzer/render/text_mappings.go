package render

import (
	"slices"
	"strconv"

	"github.com/memtrace/memtrace/analyzer/report"
)

// addMappings adds, for each process whose allocations are not seen, the
// mappings that hold most of its memory.
func addMappings(p *page, r *report.Report, opt Options) {
	for i := range r.Processes {
		proc := &r.Processes[i]
		if !proc.Unprobed || len(proc.Mappings) == 0 {
			continue
		}
		title := "MAPPINGS"
		if len(r.Processes) > 1 {
			title += " of " + strconv.Itoa(proc.PID)
		}
		p.line(bold, title)
		mappings := slices.DeleteFunc(slices.Clone(proc.Mappings), isIdle)
		if opt.Top > 0 {
			mappings = mappings[:min(opt.Top, len(mappings))]
		}
		addMappingTable(p, mappings)
		if more := proc.MappingsMore + len(proc.Mappings) - len(mappings); more > 0 {
			p.line(dim, "and "+counted(uint64(more), "more name", "more names"))
		}
	}
}

// isIdle reports whether nothing of the mappings is or was in memory.
func isIdle(m report.Mapping) bool {
	return m.ResidentBytes == 0 && m.GrowthBytes == 0 && m.SwappedBytes == 0
}

func addMappingTable(p *page, mappings []report.Mapping) {
	rows := make([]report.Site, len(mappings)) // for what they have in common with sites: a name
	for i := range mappings {
		rows[i] = report.Site{ID: i, Function: mappings[i].Name}
	}
	type site = report.Site
	cols, room := fitColumns([]column{
		{title: "RESIDENT", keep: 10, cell: func(s *site) string { return shortSize(mappings[s.ID].ResidentBytes) }},
		{title: "GROWN", keep: 9, cell: func(s *site) string { return signed(mappings[s.ID].GrowthBytes, shortSize) }},
		{title: "MAPPED", keep: 8, cell: func(s *site) string { return shortSize(mappings[s.ID].Bytes) }},
		{title: "SWAP", keep: 4, cell: func(s *site) string { return shortSize(mappings[s.ID].SwappedBytes) }},
		{title: "COUNT", keep: 5, cell: func(s *site) string { return shortCount(mappings[s.ID].Count) }},
		{title: "PERM", keep: 6, cell: func(s *site) string { return clean(mappings[s.ID].Perms) }},
	}, rows, p.width)
	p.line(bold, tableTitles(cols)+"NAME")
	for i := range rows {
		p.line(plain, tableRow(cols, i, &rows[i], room, 0))
	}
}
