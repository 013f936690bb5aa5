package render

import (
	"strconv"

	"github.com/memtrace/memtrace/analyzer/report"
)

// ThreadSum is what one thread has allocated since the attach. A realloc is an allocation of its new size.
type ThreadSum struct {
	PID, TID   int // TID 0: all threads beyond those that are told apart
	Name       string
	AllocBytes uint64
	AllocCount uint64
	PerSecond  uint64 // bytes allocated a second, between the last two updates
}

// ThreadTable is the table of threads; pids says that they are of several processes.
func ThreadTable(threads []ThreadSum, pids bool, width int) Table {
	rows := make([]report.Site, len(threads)) // for what they have in common with sites: a name
	for i := range threads {
		if rows[i] = (report.Site{ID: i, Function: threads[i].Name}); threads[i].TID == 0 {
			rows[i].Function = "[all other threads]"
		} else if threads[i].Name == "" {
			rows[i].Function = "?"
		}
	}
	type site = report.Site
	cols := []column{
		{title: "ALLOCATED", keep: 10, cell: func(s *site) string { return shortSize(threads[s.ID].AllocBytes) }},
		{title: "ALLOCS", keep: 9, cell: func(s *site) string { return shortCount(threads[s.ID].AllocCount) }},
		{title: "RATE", keep: 8, cell: func(s *site) string { return shortSize(threads[s.ID].PerSecond) + "/s" }},
		{title: "TID", keep: 6, cell: func(s *site) string { return idOrDash(threads[s.ID].TID) }},
	}
	if pids {
		cols = append(cols, column{title: "PID", keep: 5, cell: func(s *site) string { return idOrDash(threads[s.ID].PID) }})
	}
	return tableOf(width, func(p *page) {
		cols, room := fitColumns(cols, rows, p.width)
		p.line(bold, tableTitles(cols)+"THREAD")
		for i := range rows {
			p.line(plain, tableRow(cols, i, &rows[i], room, 0))
		}
	})
}

func idOrDash(id int) string {
	if id == 0 {
		return "-"
	}
	return strconv.Itoa(id)
}
