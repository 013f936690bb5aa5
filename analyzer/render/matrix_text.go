package render

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/memtrace/memtrace/analyzer/matrix"
	"github.com/memtrace/memtrace/analyzer/snapshot"
)

// matrixText writes one table for a person, and what has to be known about it.
func matrixText(t *matrix.Table, opt MatrixOptions) ([]byte, error) {
	p := &page{width: opt.Width, color: opt.Color}
	m := &matrixPage{page: p, t: t, opt: opt, pageSize: t.Snapshot.Machine.PageSize}
	m.heading()
	p.line(plain, "")
	switch opt.Table {
	case tableProcesses:
		m.processes()
	case tableComponents:
		m.components()
	case tablePages:
		pages := matrix.NewPages(t.Snapshot)
		if pages == nil {
			return nil, errNoPages
		}
		m.addPages(pages)
	default:
		m.matrix()
	}
	m.notes()
	return p.bytes(), nil
}

// matrixPage is a page for the tables of a snapshot.
type matrixPage struct {
	*page
	t        *matrix.Table
	opt      MatrixOptions
	pageSize uint64
}

func (m *matrixPage) unit() Unit {
	if m.opt.Unit == "" {
		return "KiB"
	}
	return m.opt.Unit
}

func (m *matrixPage) size(n uint64) string { return m.unit().format(n, m.pageSize) }

func (m *matrixPage) by() matrix.By {
	if m.opt.By == "" {
		return matrix.RSS
	}
	return m.opt.By
}

// heading says what was taken, where, when and for how long.
func (m *matrixPage) heading() {
	s := m.t.Snapshot
	m.flow(bold, "", []string{
		s.Machine.Hostname, s.Begin.UTC().Format("2006-01-02 15:04:05 UTC"),
		"taken in " + duration(uint64(max(s.Took(), 0))),
		counted(uint64(len(s.Processes)), "process", "processes"), machineMemory(s.Machine.Before),
	}, ", ")
}

// machineMemory says how much memory the machine has and how much is available.
func machineMemory(figures []snapshot.Figure) string {
	total, ok := snapshot.Find(figures, "MemTotal")
	available, ok2 := snapshot.Find(figures, "MemAvailable")
	if !ok || !ok2 {
		return ""
	}
	return size(available) + " of " + size(total) + " available"
}

// grid is a table of cells: the first left columns are aligned to the left,
// all others to the right.
type grid struct {
	rows   [][]string
	left   map[int]bool
	styles map[int]style // of rows
}

func (g *grid) add(cells ...string) { g.rows = append(g.rows, cells) }

// addTo writes the grid; the last column takes what room is left.
func (g *grid) addTo(p *page) {
	var widths []int
	for _, row := range g.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], columns(cell))
		}
	}
	for n, row := range g.rows {
		var b strings.Builder
		for i, cell := range row {
			if i > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(pad(cell, widths[i], !g.left[i]))
		}
		p.line(g.styles[n], b.String())
	}
}

// matrix writes the process × component table and the key of its short names.
func (m *matrixPage) matrix() {
	rows, cols := topRows(m.t.Rows, m.opt.Top), m.fitColumns()
	g := &grid{left: map[int]bool{1: true}, styles: map[int]style{0: bold}}
	head := []string{"PID", "NAME", strings.ToUpper(string(m.by()))}
	for i := range cols {
		head = append(head, cols[i].Short)
	}
	rest := len(cols) < len(m.t.Columns)
	if rest {
		head = append(head, "OTHER")
	}
	g.add(head...)
	for _, row := range rows {
		g.add(m.matrixRow(row, cols, rest)...)
	}
	m.sumRows(g, cols, len(rows), rest)
	g.addTo(m.page)
	m.line(plain, "")
	m.line(dim, fmt.Sprintf("%s in %s; rows by USS, columns by RSS; - is not mapped, ? is not known", strings.ToUpper(string(m.by())), m.unit()))
	m.key(cols)
}

// fitColumns are the components that fit into the width beside the fixed
// columns and the sum of the others.
func (m *matrixPage) fitColumns() []matrix.Column {
	limit := m.opt.Columns
	if limit <= 0 {
		limit = 16
	}
	cols := topRows(m.t.Columns, limit)
	if m.width == 0 {
		return cols
	}
	total := m.t.Total()
	widest := len(m.size(m.by().Total(&total)))
	room := m.width - 8 - (nameColumn + 1) - (max(widest, 3) + 1) - (max(widest, 5) + 1) // PID, NAME, the sum and OTHER
	for i := range cols {
		if room -= max(len(m.size(m.by().Of(&cols[i].Total))), len(cols[i].Short)) + 1; room < 0 {
			return cols[:i]
		}
	}
	return cols
}

// nameColumn is how wide a process's name is at most: TASK_COMM_LEN less one.
const nameColumn = 15

func (m *matrixPage) matrixRow(p *snapshot.Process, cols []matrix.Column, rest bool) []string {
	cells := []string{strconv.Itoa(p.PID), clip(clean(p.Comm), nameColumn)}
	if p.Access != snapshot.Known {
		cells = append(cells, m.unread(p, m.by() == matrix.RSS))
		for range cols {
			cells = append(cells, "?")
		}
		return cells
	}
	total := m.by().Total(&p.Usage)
	cells = append(cells, m.size(total))
	shown := uint64(0)
	for i := range cols {
		u := m.t.Cell(p, &cols[i])
		if u == nil {
			cells = append(cells, "-")
			continue
		}
		shown += m.by().Of(u)
		cells = append(cells, m.size(m.by().Of(u)))
	}
	if rest {
		cells = append(cells, m.size(total-min(shown, total)))
	}
	return cells
}

// unread is the cell of a process that could not be read: never 0, and its RSS
// by the kernel's own counters.
func (m *matrixPage) unread(p *snapshot.Process, rss bool) string {
	if !rss || p.StartTime == 0 {
		return "?"
	}
	return "~" + m.size(p.Resident)
}

// sumRows adds a row for what the top rows leave out, and one for all.
func (m *matrixPage) sumRows(g *grid, cols []matrix.Column, shown int, rest bool) {
	if left := m.t.Rows[shown:]; len(left) > 0 {
		m.sumRow(g, count(uint64(len(left)))+" more", left, cols, rest)
	}
	g.styles[len(g.rows)] = bold
	m.sumRow(g, "all", m.t.Rows, cols, rest)
}

// sumRow adds up processes; where none of them was read, nothing is known.
func (m *matrixPage) sumRow(g *grid, name string, rows []*snapshot.Process, cols []matrix.Column, rest bool) {
	sums, read := make([]uint64, len(cols)+2), false
	for _, p := range rows {
		read = read || p.Access == snapshot.Known
		total, other := m.by().Total(&p.Usage), m.by().Total(&p.Usage)
		sums[0] += total
		for i := range cols {
			if u := m.t.Cell(p, &cols[i]); u != nil {
				sums[i+1] += m.by().Of(u)
				other -= min(m.by().Of(u), other)
			}
		}
		sums[len(cols)+1] += other
	}
	if !rest {
		sums = sums[:len(cols)+1]
	}
	cells := []string{"", name}
	for _, v := range sums {
		if read {
			cells = append(cells, m.size(v))
		} else {
			cells = append(cells, "?")
		}
	}
	g.add(cells...)
}

// key says what the short names stand for.
func (m *matrixPage) key(cols []matrix.Column) {
	m.line(plain, "")
	g := &grid{left: map[int]bool{0: true, 1: true, 2: true}, styles: map[int]style{0: bold}}
	g.add("KEY", "KIND", "COMPONENT")
	for i := range cols {
		g.add(cols[i].Short, cols[i].Kind.String(), m.name(cols[i].Name, 16))
	}
	g.addTo(m.page)
}

// name fits a component's name into what the columns before leave of the width.
func (m *matrixPage) name(name string, before int) string {
	if m.width == 0 {
		return clean(name)
	}
	return elidePath(clean(name), max(m.width-before, 8))
}

// processes writes the table of processes.
func (m *matrixPage) processes() {
	g := &grid{left: map[int]bool{1: true, 7: true, 8: true}, styles: map[int]style{0: bold}}
	g.add("PID", "USER", "USS", "PSS", "RSS", "SWAP", "TABLES", "NAME", "COMMAND")
	rows := topRows(m.t.Rows, m.opt.Top)
	for _, p := range rows {
		u, cells := &p.Usage, []string{strconv.Itoa(p.PID), clip(clean(p.User), 10)}
		if p.Access == snapshot.Known {
			cells = append(cells, m.size(u.USS), m.size(u.PSS), m.size(u.RSS), m.size(u.Swap))
		} else {
			cells = append(cells, "?", "?", m.unread(p, true), "?")
		}
		g.add(append(cells, m.size(u.Tables), clip(clean(p.Comm), nameColumn), command(p))...)
	}
	u := m.t.Total()
	g.styles[len(g.rows)] = bold
	sums := []string{"", "all", m.size(u.USS), m.size(u.PSS), m.size(u.RSS), m.size(u.Swap)}
	if m.t.Unread == len(m.t.Rows) {
		sums = []string{"", "all", "?", "?", "?", "?"}
	}
	g.add(append(sums, m.size(u.Tables), count(uint64(len(m.t.Rows))), "")...)
	g.addTo(m.page)
	m.left(len(m.t.Rows) - len(rows))
	m.line(plain, "")
	m.line(dim, fmt.Sprintf("in %s; USS is what ending the process would free", m.unit()))
}

// command is a process's command line, or why there is none.
func command(p *snapshot.Process) string {
	if p.CmdlineAccess != snapshot.Known {
		return "(" + p.CmdlineAccess.String() + ")"
	}
	return clip(clean(strings.Join(p.Cmdline, " ")), 200)
}

func (m *matrixPage) left(n int) {
	if n > 0 {
		m.line(dim, count(uint64(n))+" more (--top 0 shows all)")
	}
}

// components writes the table of components.
func (m *matrixPage) components() {
	g := &grid{left: map[int]bool{5: true, 6: true}, styles: map[int]style{0: bold}}
	g.add("PROCS", "RSS", "PSS", "USS", "SWAP", "KIND", "COMPONENT")
	rows := topRows(m.t.Columns, m.opt.Top)
	var all snapshot.Use
	for i := range m.t.Columns {
		u := &m.t.Columns[i].Total
		all.RSS, all.PSS, all.USS, all.Swap = all.RSS+u.RSS, all.PSS+u.PSS, all.USS+u.USS, all.Swap+u.Swap
	}
	for i := range rows {
		c := &rows[i]
		u := &c.Total
		g.add(count(uint64(c.Processes)), m.size(u.RSS), m.size(u.PSS), m.size(u.USS), m.size(u.Swap), c.Kind.String(), clean(c.Name))
	}
	g.styles[len(g.rows)] = bold
	g.add("", m.size(all.RSS), m.size(all.PSS), m.size(all.USS), m.size(all.Swap), "", "all")
	g.addTo(m.page)
	m.left(len(m.t.Columns) - len(rows))
	m.line(plain, "")
	m.line(dim, fmt.Sprintf("in %s; RSS counts what is shared once for each process, PSS once", m.unit()))
}

// notes says what could not be read, what changed meanwhile and what is
// estimated.
func (m *matrixPage) notes() {
	notes := append(unreadNotes(m.t), changeNotes(m.t.Snapshot)...)
	if m.t.Snapshot.Machine.Averaged {
		notes = append(notes, "This kernel averages how often large folios are mapped: PSS and USS are estimates.")
	}
	notes = append(notes, m.t.Snapshot.Warnings...)
	if len(notes) > 0 {
		m.line(plain, "")
	}
	for _, note := range notes {
		m.prose(plain, "", note)
	}
}

// unreadNotes says of how many processes nothing is known, and why.
func unreadNotes(t *matrix.Table) (notes []string) {
	byAccess := make(map[snapshot.Access][]*snapshot.Process)
	for _, p := range t.Rows[len(t.Rows)-t.Unread:] {
		byAccess[p.Access] = append(byAccess[p.Access], p)
	}
	for access := snapshot.NoPermission; len(byAccess) > 0 && access <= snapshot.Failed; access++ {
		list := byAccess[access]
		delete(byAccess, access)
		if len(list) == 0 {
			continue
		}
		text := fmt.Sprintf("%s not read and in no sum: %s. For example: %s.",
			counted(uint64(len(list)), "process was", "processes were"), access, clean(list[0].Why))
		if access == snapshot.OverBudget || access == snapshot.OutOfTime {
			text += " --stall-budget 0 reads them whatever it costs them."
		}
		notes = append(notes, text)
	}
	return notes
}

// movedEnough is by how much a process must have grown or shrunk while the
// snapshot was taken to be named: the kernel's counters are off by less.
const movedEnough = 1 << 20

// changeNotes says what changed while the snapshot was taken.
func changeNotes(s *snapshot.Snapshot) (notes []string) {
	c := &s.Changes
	if len(c.Came)+len(c.Went) > 0 {
		notes = append(notes, fmt.Sprintf("While it was taken, %s and %s.",
			counted(uint64(len(c.Came)), "process came", "processes came"), counted(uint64(len(c.Went)), "went", "went")))
	}
	if c.Uncounted {
		notes = append(notes, "Which processes came while it was taken is not known.")
	}
	var moved []string
	for i := range s.Processes {
		p := &s.Processes[i]
		if by := p.Moved(); by >= movedEnough || by <= -movedEnough {
			moved = append(moved, fmt.Sprintf("%s (%d) %s", clean(p.Comm), p.PID, signed(by, size)))
		}
	}
	if n := len(moved); n > 0 {
		if n > 5 {
			moved = append(moved[:5], fmt.Sprintf("and %d more", n-5))
		}
		notes = append(notes, "RSS moved after it was read: "+strings.Join(moved, ", ")+".")
	}
	return append(notes, holdNote(s)...)
}

// holdNote says what the snapshot cost the processes.
func holdNote(s *snapshot.Snapshot) []string {
	var total, worst time.Duration
	var who *snapshot.Process
	for i := range s.Processes {
		p := &s.Processes[i]
		if total += p.Hold; p.Hold > worst {
			worst, who = p.Hold, p
		}
	}
	if who == nil {
		return nil
	}
	return []string{fmt.Sprintf("Reading held mmap locks for %s altogether; at most %s of one process, %s (%d), where %s had been predicted.",
		duration(uint64(total)), duration(uint64(worst)), clean(who.Comm), who.PID, duration(uint64(who.Predicted)))}
}
