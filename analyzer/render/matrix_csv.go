package render

import (
	"errors"
	"strconv"
	"strings"

	"github.com/memtrace/memtrace/analyzer/matrix"
	"github.com/memtrace/memtrace/analyzer/snapshot"
)

// matrixCSV writes one table (RFC 4180, with a heading). Cells of figures that
// are not known are empty.
func matrixCSV(t *matrix.Table, opt MatrixOptions) ([]byte, error) {
	if opt.Unit == "" {
		opt.Unit = "B"
	}
	c := &matrixTable{t: t, opt: opt}
	switch opt.Table {
	case tableProcesses:
		c.processes()
	case tableComponents:
		c.components()
	case tablePages:
		return nil, errors.New("the table of pages is written as text or JSON only")
	default:
		c.matrix()
	}
	return EncodeCSV(c.rows), nil
}

// matrixTable collects the rows of a table.
type matrixTable struct {
	t    *matrix.Table
	opt  MatrixOptions
	rows [][]string
}

func (c *matrixTable) size(n uint64) string {
	return c.opt.Unit.format(n, c.t.Snapshot.Machine.PageSize)
}

func (c *matrixTable) add(cells ...string) { c.rows = append(c.rows, cells) }

// matrix has a column for each component, headed by its name; where two have
// the same, the inode follows.
func (c *matrixTable) matrix() {
	by, cols := c.opt.By, topRows(c.t.Columns, c.opt.Columns)
	names := make(map[string]int, len(cols))
	for i := range cols {
		names[cols[i].Name]++
	}
	head := []string{"pid", "comm", string(cmpOr(by))}
	for i := range cols {
		name := cols[i].Name
		if names[name] > 1 {
			name += " #" + strconv.FormatUint(cols[i].Inode, 10)
		}
		head = append(head, name)
	}
	c.add(head...)
	for _, p := range topRows(c.t.Rows, c.opt.Top) {
		row := []string{strconv.Itoa(p.PID), p.Comm, ""}
		if p.Access == snapshot.Known {
			row[2] = c.size(by.Total(&p.Usage))
		}
		for i := range cols {
			cell := ""
			if u := c.t.Cell(p, &cols[i]); u != nil {
				cell = c.size(by.Of(u))
			}
			row = append(row, cell)
		}
		c.add(row...)
	}
}

// cmpOr is the figure's name, also of the zero value.
func cmpOr(by matrix.By) matrix.By {
	if by == "" {
		return matrix.RSS
	}
	return by
}

func (c *matrixTable) processes() {
	c.add("pid", "start_time", "user", "comm", "uss", "pss", "rss", "swap", "anon", "page_tables", "rss_counter", "unavailable", "cgroup", "cmdline")
	for _, p := range topRows(c.t.Rows, c.opt.Top) {
		u, unread := &p.Usage, p.Access.String()
		figures := []string{"", "", "", "", ""}
		if p.Access == snapshot.Known {
			unread = ""
			figures = []string{c.size(u.USS), c.size(u.PSS), c.size(u.RSS), c.size(u.Swap), c.size(u.Anon)}
		}
		row := append([]string{strconv.Itoa(p.PID), strconv.FormatUint(p.StartTime, 10), p.User, p.Comm}, figures...)
		c.add(append(row, c.size(u.Tables), c.size(p.Resident), unread, p.Cgroup, strings.Join(p.Cmdline, " "))...)
	}
}

func (c *matrixTable) components() {
	c.add("name", "kind", "device", "inode", "processes", "mappings", "rss", "pss", "uss", "swap", "anon")
	for i := range topRows(c.t.Columns, c.opt.Top) {
		col := &c.t.Columns[i]
		u := &col.Total
		c.add(col.Name, col.Kind.String(), strconv.FormatUint(col.Device, 10), strconv.FormatUint(col.Inode, 10),
			strconv.Itoa(col.Processes), strconv.Itoa(u.Mappings),
			c.size(u.RSS), c.size(u.PSS), c.size(u.USS), c.size(u.Swap), c.size(u.Anon))
	}
}
