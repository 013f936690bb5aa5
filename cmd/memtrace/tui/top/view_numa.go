package top

import (
	"fmt"
	"strconv"

	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/cmd/memtrace/tui"
)

// maxNodeNotes bounds how many nodes are drawn above the table, and
// maxNodeColumns how many get a column of their own.
const (
	maxNodeNotes   = 8
	maxNodeColumns = 64
)

// numaTable shows the nodes above, and below them where each process's pages are.
func numaTable(s *Snapshot, o options) *Table {
	columns := []column[Process]{
		pidColumn(),
		{Column{Name: "user", Title: "USER", Width: 8, Rank: 60, Doc: "user the process runs as"}, func(p *Process) Value { return text(p.User) }},
		{size("rss", "RSS", 1, "resident memory (statm)"), func(p *Process) Value { return value(p.RSS, Bytes) }},
	}
	for i := range min(len(s.Nodes), maxNodeColumns) {
		columns = append(columns, nodeColumn(s.Nodes[i].ID, i))
	}
	if len(s.Nodes) > 1 {
		columns = append(columns, column[Process]{barColumn("spread", "SPREAD", "how its pages are spread over the nodes, from the first", 55),
			func(p *Process) Value { return drawn(spread(p, o.drawing())) }})
	}
	t := tableOf(o.filter.processes(userProcesses(s.Processes)), (*Process).id, append(columns, commandColumn(o)))
	for i := range s.Nodes[:min(len(s.Nodes), maxNodeNotes)] {
		t.Notes = append(t.Notes, nodeNote(&s.Nodes[i], o.drawing()))
	}
	t.Empty = emptyFor(o.filter, "no processes")
	return t
}

func nodeColumn(id, i int) column[Process] {
	name := strconv.Itoa(id)
	return column[Process]{
		size("n"+name, "N"+name, min(2+i, 50), "resident pages on node "+name+" (numa_maps)"),
		func(p *Process) Value {
			if i >= len(p.OnNode) {
				return value(Figure{}, Bytes)
			}
			return value(p.OnNode[i], Bytes)
		}}
}

func spread(p *Process, chars *tui.Charset) string {
	var parts []int64
	whole := int64(0)
	for _, f := range p.OnNode {
		parts = append(parts, f.N)
		whole += max(f.N, 0)
	}
	return chars.Stacked(parts, whole, barWidth)
}

func nodeNote(n *Node, chars *tui.Charset) string {
	short := func(f Figure) string { return value(f, Bytes).String() }
	s := fmt.Sprintf("node %d %s %s of %s used: anon %s file %s shmem %s slab %s free %s", n.ID,
		chars.Bar(n.Used.N, n.Total.N, 10), short(n.Used), short(n.Total),
		short(n.Anon), short(n.File), short(n.Shmem), short(n.Slab), short(n.Free))
	if n.HugeTotal.N > 0 {
		s += fmt.Sprintf(" huge pages %s free of %s", render.ShortCount(uint64(max(n.HugeFree.N, 0))), render.ShortCount(uint64(n.HugeTotal.N)))
	}
	return s
}
