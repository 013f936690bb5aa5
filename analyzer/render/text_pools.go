package render

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/memtrace/memtrace/analyzer/report"
)

// poolsShown is how many names of pools the text of a process has.
const poolsShown = 12

// addPools adds what the process's pools hold, by name.
func addPools(p *page, proc *report.Process) {
	if len(proc.Pools) == 0 {
		return
	}
	var items []string
	shown := proc.Pools[:min(len(proc.Pools), poolsShown)]
	for i := range shown {
		pool := &shown[i]
		items = append(items, fmt.Sprintf("%s %s in %s (%s)", clean(pool.Name), size(pool.LiveBytes),
			counted(pool.LiveCount, "block", "blocks"), counted(uint64(pool.Pools), "pool", "pools")))
	}
	if more := len(proc.Pools) - len(shown) + proc.PoolsMore; more > 0 {
		items = append(items, fmt.Sprintf("%d more names", more))
	}
	p.flow(plain, "  Pools ", items, ", ")
}

// A namedPool is what the pools of a name hold in one process.
type namedPool struct {
	report.Pool
	pid int
}

// allPools are the pools of all processes, those that hold most first, and how
// many names more there are.
func allPools(r *report.Report) (all []namedPool, more int) {
	for i := range r.Processes {
		proc := &r.Processes[i]
		for _, pool := range proc.Pools {
			all = append(all, namedPool{pool, proc.PID})
		}
		more += proc.PoolsMore
	}
	slices.SortStableFunc(all, func(a, b namedPool) int { return cmp.Compare(b.LiveBytes, a.LiveBytes) })
	return all, more
}

// addPoolTable adds a heading and a row for each of the pools.
func addPoolTable(p *page, r *report.Report, pools []namedPool) {
	rows := make([]report.Site, len(pools)) // for what they have in common with sites: a name
	for i := range pools {
		rows[i] = report.Site{ID: i, Function: pools[i].Name}
	}
	type site = report.Site
	cols := []column{
		{title: "LIVE", keep: 10, cell: func(s *site) string { return shortSize(pools[s.ID].LiveBytes) }},
		{title: "COUNT", keep: 7, cell: func(s *site) string { return shortCount(pools[s.ID].LiveCount) }},
		{title: "POOLS", keep: 8, cell: func(s *site) string { return shortCount(uint64(pools[s.ID].Pools)) }},
	}
	if len(r.Processes) > 1 {
		pid := column{title: "PID", keep: 9, cell: func(s *site) string { return strconv.Itoa(pools[s.ID].pid) }}
		cols = append([]column{pid}, cols...)
	}
	cols, room := fitColumns(cols, rows, p.width)
	p.line(bold, tableTitles(cols)+"NAME")
	for i := range rows {
		p.line(plain, tableRow(cols, i, &rows[i], room, 0))
	}
}
