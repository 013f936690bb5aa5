package compare

import (
	"path"

	"github.com/memtrace/memtrace/analyzer/report"
)

// matcher finds the entries of both Reports that are one site of one row.
type matcher struct {
	by    string
	moved map[string]bool   // see moved
	index map[[2]string]int // by row and fingerprint
	cells []cell
}

// cell is one site of one row.
type cell struct {
	row  string
	site *report.Site
	Sum
	sites     [2]int
	in        [2]bool
	processes [2]int
}

func (m *matcher) take(s *Side, side int) {
	names, number := s.comms()
	for i := range s.Entries {
		e := &s.Entries[i]
		comm, ok := names[e.Process]
		if !ok {
			comm = unnamed
		}
		c := m.cell(m.keys(e, comm))
		c.in[side] = true
		c.Bytes.take(e.Bytes, side == 1)
		c.Count.take(e.Count, side == 1)
		if m.by == byProcess {
			c.processes[side] = number[comm]
		}
		if e.Site != nil {
			c.site = e.Site
			c.sites[side] += 1 + len(e.Site.MergedIDs)
		}
	}
}

// keys are the row that an entry belongs to, and its site in there.
func (m *matcher) keys(e *Entry, comm string) (row, site string) {
	site = Unlisted
	if e.Site != nil {
		site = e.Site.Fingerprint()
	}
	switch {
	case m.by == byProcess:
		return comm, site
	case e.Site == nil || m.by == bySite:
		return site, site
	}
	row = e.Site.GroupKey(m.by)
	if m.moved[row] {
		row = path.Base(row)
	}
	return row, site
}

func (m *matcher) cell(row, site string) *cell {
	i, ok := m.index[[2]string{row, site}]
	if !ok {
		i = len(m.cells)
		m.index[[2]string{row, site}] = i
		m.cells = append(m.cells, cell{row: row})
	}
	return &m.cells[i]
}

// modules are the paths of the files that the sites are in.
func modules(s *Side) map[string]bool {
	out := make(map[string]bool)
	for i := range s.Entries {
		if site := s.Entries[i].Site; site != nil {
			out[site.GroupKey(byModule)] = true
		}
	}
	return out
}

// moved are the modules that only one of the Reports has, where the other one has such a
// module of the same name: another build of a program may be in another folder.
func moved(a, b map[string]bool) map[string]bool {
	names := func(of, other map[string]bool) map[string]bool {
		out := make(map[string]bool)
		for key := range of {
			if !other[key] {
				out[path.Base(key)] = true
			}
		}
		return out
	}
	before, after := names(a, b), names(b, a)
	out := make(map[string]bool)
	for _, of := range []map[string]bool{a, b} {
		for key := range of {
			if name := path.Base(key); before[name] && after[name] && !(a[key] && b[key]) {
				out[key] = true
			}
		}
	}
	return out
}
