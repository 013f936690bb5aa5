package render

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/memtrace/memtrace/analyzer/report"
)

// addGroups adds the table of a Report on processes that were not traced:
// blocks that look alike in place of call sites.
func addGroups(p *page, r *report.Report, opt Options) {
	sites := shownSites(r, opt)
	if len(sites) == 0 {
		p.line(bold, "Groups: the heap is empty")
		return
	}
	cols, room := fitColumns(groupColumns(r, p.width), sites, p.width)
	head := strings.TrimSuffix(tableHead(cols, room, 0), "FUNCTION")
	p.line(bold, head+"BLOCKS THAT BEGIN WITH")
	for i := range sites {
		p.line(plain, tableRow(cols, i, &sites[i], room, 0))
	}
	addOmitted(p, r, sites, opt)
}

func groupColumns(r *report.Report, width int) []column {
	bytes := shortSize
	if width == 0 || width >= roomyTable {
		bytes = size
	}
	leaked := make(map[int]uint64)
	for _, l := range r.Leaks {
		leaked[l.Site] += l.Bytes
	}
	type site = report.Site
	cols := []column{
		{title: "GROUP", keep: 9, cell: func(s *site) string { return "#" + strconv.Itoa(s.ID) }},
		{title: "LIVE", keep: 10, cell: func(s *site) string { return bytes(s.LiveBytes) }},
		{title: "COUNT", keep: 7, cell: func(s *site) string { return shortCount(s.LiveCount) }},
		{title: "EACH", keep: 8, cell: func(s *site) string { return bytes(s.Group.Size) }},
		{title: "RES", keep: 4, cell: func(s *site) string { return bytes(s.ResidentBytes) }},
		{title: "LEAKED", keep: 6, cell: func(s *site) string { return bytes(leaked[s.ID]) }},
	}
	if len(r.Processes) > 1 {
		pid := column{title: "PID", keep: 8, cell: func(s *site) string { return strconv.Itoa(s.PID) }}
		cols = append([]column{pid}, cols...)
	}
	return cols
}

// groupName says what the blocks of a group begin with.
func groupName(g *report.BlockGroup) string {
	switch g.Class {
	case "type":
		name := clean(g.Type)
		if g.Module != "" {
			name += " (" + clean(base(g.Module)) + ")"
		}
		return name
	case "text", "zeros":
		return g.Class
	case "pointer":
		return "a pointer into the heap"
	}
	return "other data"
}

// addWalk adds what was found of a heap that was read from outside.
func addWalk(p *page, proc *report.Process) {
	h, w := proc.Heap, proc.HeapWalk
	p.flow(plain, "  Heap  ", []string{
		size(h.LiveBytes) + " live in " + counted(h.LiveCount, "block", "blocks"),
		"resident " + size(h.ResidentBytes), "untouched " + size(h.UntouchedBytes), "swapped " + size(h.SwappedBytes),
	}, ", ")
	items := []string{counted(uint64(w.Arenas), "arena", "arenas"), size(w.FreeBytes) + " free",
		counted(w.CachedCount, "freed block", "freed blocks") + " kept for reuse",
		counted(w.MappedCount, "block", "blocks") + " with mappings of their own"}
	p.flow(plain, "        ", items, ", ")
	if w.ClearedCount > 0 {
		p.line(plain, fmt.Sprintf("        %s that the scans called leaked changed meanwhile, or hang from such: in use",
			counted(w.ClearedCount, "block", "blocks")))
	}
}
