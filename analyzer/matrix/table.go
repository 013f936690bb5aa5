package matrix

import (
	"cmp"
	"slices"
	"strings"

	"github.com/memtrace/memtrace/analyzer/snapshot"
)

// By is the figure that a table shows and compares.
type By string

// The figures of a cell.
const (
	RSS By = "rss"
	PSS By = "pss"
	USS By = "uss"
)

// Figures lists the names of By.
func Figures() []string { return []string{string(RSS), string(PSS), string(USS)} }

// Of takes the figure out of a cell.
func (b By) Of(u *snapshot.Use) uint64 {
	switch b {
	case PSS:
		return u.PSS
	case USS:
		return u.USS
	}
	return u.RSS
}

// Total takes the figure out of a process's total.
func (b By) Total(u *snapshot.Usage) uint64 {
	switch b {
	case PSS:
		return u.PSS
	case USS:
		return u.USS
	}
	return u.RSS
}

// Table is the process × component matrix of a snapshot.
type Table struct {
	Snapshot *snapshot.Snapshot
	// Rows are the processes: those whose memory was read by USS, descending,
	// then the others by what statm gave for them.
	Rows []*snapshot.Process
	// Columns are the components by their RSS over all processes, descending.
	Columns []Column
	Unread  int // how many of the last Rows were not read
}

// Column is one component over all processes.
type Column struct {
	*snapshot.Component
	Index     int // into Snapshot.Components
	Short     string
	Processes int // that map it
	// Total adds up the processes' figures: what is shared counts in its RSS
	// once for each of them, and in its PSS once.
	Total snapshot.Use
}

// New arranges a snapshot.
func New(s *snapshot.Snapshot) *Table {
	t := &Table{Snapshot: s}
	for i := range s.Processes {
		t.Rows = append(t.Rows, &s.Processes[i])
		if s.Processes[i].Access != snapshot.Known {
			t.Unread++
		}
	}
	slices.SortStableFunc(t.Rows, compareRows)
	t.Columns = columnsOf(s)
	return t
}

func compareRows(a, b *snapshot.Process) int {
	read := func(p *snapshot.Process) int {
		if p.Access == snapshot.Known {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(read(a), read(b)), cmp.Compare(b.Usage.USS, a.Usage.USS),
		cmp.Compare(b.Usage.RSS, a.Usage.RSS), cmp.Compare(b.Resident, a.Resident), cmp.Compare(a.PID, b.PID))
}

func columnsOf(s *snapshot.Snapshot) []Column {
	all := make([]Column, len(s.Components))
	for i := range all {
		all[i].Component, all[i].Index = &s.Components[i], i
	}
	for i := range s.Processes {
		for _, u := range s.Processes[i].Uses {
			c := &all[u.Component]
			c.Processes++
			addUse(&c.Total, &u)
		}
	}
	all = slices.DeleteFunc(all, func(c Column) bool { return c.Processes == 0 })
	slices.SortFunc(all, func(a, b Column) int {
		return cmp.Or(cmp.Compare(b.Total.RSS, a.Total.RSS), cmp.Compare(b.Total.PSS, a.Total.PSS),
			strings.Compare(a.Name, b.Name), cmp.Compare(a.Index, b.Index))
	})
	nameColumns(all)
	return all
}

func addUse(to, u *snapshot.Use) {
	to.Mappings += u.Mappings
	to.Size += u.Size
	to.RSS += u.RSS
	to.PSS += u.PSS
	to.USS += u.USS
	to.Swap += u.Swap
	to.Anon += u.Anon
	to.Hugetlb += u.Hugetlb
}

// Cell returns what a process uses of the component of a column, or nil where
// it doesn't map it.
func (t *Table) Cell(row *snapshot.Process, column *Column) *snapshot.Use {
	i, ok := slices.BinarySearchFunc(row.Uses, column.Index, func(u snapshot.Use, index int) int {
		return cmp.Compare(u.Component, index)
	})
	if !ok {
		return nil
	}
	return &row.Uses[i]
}

// Total adds up the rows that were read.
func (t *Table) Total() snapshot.Usage {
	var sum snapshot.Usage
	for _, p := range t.Rows {
		u := &p.Usage
		sum.Size += u.Size
		sum.RSS += u.RSS
		sum.PSS += u.PSS
		sum.USS += u.USS
		sum.Swap += u.Swap
		sum.Anon += u.Anon
		sum.Hugetlb += u.Hugetlb
		sum.Tables += u.Tables
		sum.PSSSummed = sum.PSSSummed || u.PSSSummed
	}
	return sum
}
