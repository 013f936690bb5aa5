package top

import (
	"cmp"
	"slices"
	"strings"
)

// Column describes one column of a Table.
type Column struct {
	Name  string // in --sort, CSV and JSON: "pss"
	Title string // on a terminal: "PSS"
	Doc   string // what it means, with its source
	Unit  Unit
	Width int // on a terminal
	// Rank says what is left out first where the terminal is narrow: the
	// highest. Columns of rank 0 always stay.
	Rank int
	Flex bool // takes the width that the others leave; the last one
	Live bool // takes two Snapshots to tell
	Path bool // its text is a path: the end of it stays where it is cut
}

// ID tells rows apart from one Snapshot to the next.
type ID struct {
	PID   int
	Start uint64 // of the process, so that a reused PID is another row
	Name  string
}

// Table is what a view shows. Cells are made when they are asked for.
type Table struct {
	Columns []Column
	Len     int
	Cell    func(row, column int) Value
	ID      func(row int) ID
	Fixed   bool     // rows keep their order: they are parts of a sum
	Notes   []string // lines above the table
	Empty   string   // why there are no rows
}

// column is a Column of rows of type R.
type column[R any] struct {
	Column
	get func(*R) Value
}

func tableOf[R any](rows []R, id func(*R) ID, columns []column[R]) *Table {
	t := &Table{Len: len(rows)}
	for _, c := range columns {
		t.Columns = append(t.Columns, c.Column)
	}
	t.Cell = func(row, col int) Value { return columns[col].get(&rows[row]) }
	t.ID = func(row int) ID { return id(&rows[row]) }
	return t
}

// column returns the index of the column called name, or -1.
func (t *Table) column(name string) int {
	return slices.IndexFunc(t.Columns, func(c Column) bool { return c.Name == name })
}

// settled is t without those columns that take two Snapshots to tell and have
// nothing to tell yet.
func (t *Table) settled(rows []int) *Table {
	var kept []int
	out := *t
	out.Columns = nil
	for i, c := range t.Columns {
		if c.Live && !slices.ContainsFunc(rows, func(row int) bool { return t.Cell(row, i).Known() }) {
			continue
		}
		kept = append(kept, i)
		out.Columns = append(out.Columns, c)
	}
	out.Cell = func(row, col int) Value { return t.Cell(row, kept[col]) }
	return &out
}

// order returns the rows sorted by a column: numbers from the largest down,
// text from a to z; reversed where asked. Rows without a figure come last
// either way.
func (t *Table) order(col int, reverse bool) []int {
	rows := make([]int, t.Len)
	for i := range rows {
		rows[i] = i
	}
	if t.Fixed || col < 0 || col >= len(t.Columns) {
		return rows
	}
	values := make([]Value, t.Len)
	for i := range values {
		values[i] = t.Cell(i, col)
	}
	slices.SortStableFunc(rows, func(a, b int) int {
		if c := compare(&values[a], &values[b], reverse); c != 0 {
			return c
		}
		return t.compareIDs(a, b)
	})
	return rows
}

func compare(a, b *Value, reverse bool) int {
	if a.Known() != b.Known() {
		if a.Known() {
			return -1
		}
		return 1
	}
	var c int
	switch {
	case !a.Known():
		return cmp.Compare(a.State, b.State)
	case a.Unit == Text:
		c = strings.Compare(a.Text, b.Text)
	case a.Unit == Plain:
		c = cmp.Compare(a.N, b.N)
	default:
		c = cmp.Compare(b.N, a.N)
	}
	if reverse {
		return -c
	}
	return c
}

func (t *Table) compareIDs(a, b int) int {
	x, y := t.ID(a), t.ID(b)
	return cmp.Or(cmp.Compare(x.PID, y.PID), strings.Compare(x.Name, y.Name))
}
