package compare

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/memtrace/memtrace/analyzer/report"
)

// Groupings lists by what sites can be summed up; the first one leaves them single.
func Groupings() []string { return []string{bySite, "function", "file", byModule, byProcess} }

const (
	bySite    = report.BySite
	byModule  = "module"
	byProcess = "process"
)

// Diff is what changed from one Report to another.
type Diff struct {
	Figure        Figure
	By            string // of Groupings
	Before, After Side
	Rows          []Row // that have something before or after; by their change, the largest growth first
	Total         Sum   // of all rows
	Sites         Tally
	Unsure        bool     // a row is, so that Grown and Shrunk of the total may be too large; see Row
	Cautions      []string // what to know before the figures are believed
}

// Tally counts sites by what became of them. One that only processes or lines tell apart
// counts once; so does one in each row that has a part of it.
type Tally struct {
	Before, After  int // that have something of the figure
	New, Gone      int
	Grown, Shrunk  int // the new and the gone among them
	Unchanged      int
	UnlistedBefore int // that only the Report after lists, where the one before leaves sites out
	UnlistedAfter  int
}

// BySite reports whether each row is a site.
func (d *Diff) BySite() bool { return d.By == bySite }

// ByProcess reports whether each row is the processes of one name.
func (d *Diff) ByProcess() bool { return d.By == byProcess }

// HasErrors reports whether the standard error of any figure is known.
func (d *Diff) HasErrors() bool { return d.Figure.Of(&d.Total).ChangeSE() > 0 }

// Compare finds what changed. The words of by are those of Groupings. It returns an error
// for another one, and for Reports whose figures no memory can have.
func Compare(f Figure, before, after Side, by string) (*Diff, error) {
	if !slices.Contains(Groupings(), by) {
		return nil, fmt.Errorf("by %q is none of %s", by, strings.Join(Groupings(), ", "))
	}
	for _, s := range []*Side{&before, &after} {
		if err := s.bounded(); err != nil {
			return nil, err
		}
	}
	d := &Diff{Figure: f, By: by, Before: before, After: after}
	m := &matcher{by: by, index: make(map[[2]string]int)}
	if by == byModule {
		m.moved = moved(modules(&before), modules(&after))
	}
	m.take(&before, 0)
	m.take(&after, 1)
	d.gather(m.cells)
	d.sort()
	d.Cautions = d.cautions()
	return d, nil
}

// bounded refuses figures whose sums would not fit in 63 bits.
func (s *Side) bounded() error {
	var bytes, count uint64
	for i := range s.Entries {
		e := &s.Entries[i]
		if e.Bytes.Value > math.MaxInt64-bytes || e.Count.Value > math.MaxInt64-count {
			return fmt.Errorf("the sites of %s add up to more than 2^63: it is damaged, or was not written by memtrace", s.Name)
		}
		bytes, count = bytes+e.Bytes.Value, count+e.Count.Value
	}
	return nil
}

// gather makes rows of the cells that have anything.
func (d *Diff) gather(cells []cell) {
	index := make(map[string]int)
	for i := range cells {
		c := &cells[i]
		if c.empty() {
			continue
		}
		c.Bytes.settle()
		c.Count.settle()
		at, ok := index[c.row]
		if !ok {
			at = len(d.Rows)
			index[c.row] = at
			d.Rows = append(d.Rows, Row{Key: c.row})
		}
		d.Rows[at].take(c, d.BySite())
		d.Total.Add(&c.Sum)
		if c.site != nil {
			d.count(c)
		}
		if d.unsure(c) {
			d.Rows[at].Unsure, d.Unsure = true, true
		}
	}
	for i := range d.Rows {
		if r := &d.Rows[i]; r.Key == Unlisted {
			r.State = Stayed
		} else {
			r.State = d.state(r.in)
		}
	}
}

func (r *Row) take(c *cell, site bool) {
	r.Sum.Add(&c.Sum)
	for side := range r.in {
		r.in[side] = r.in[side] || c.in[side]
		r.Sites[side] += c.sites[side]
		r.Processes[side] = max(r.Processes[side], c.processes[side])
	}
	if site {
		r.Site = c.site
	}
}

// unsure reports whether a cell is what one Report alone lists, and the other may leave out.
func (d *Diff) unsure(c *cell) bool {
	state := d.state(c.in)
	return c.site == nil || state == UnlistedBefore || state == UnlistedAfter
}

// state tells what neither Report can tell alone.
func (d *Diff) state(in [2]bool) State {
	switch {
	case !in[0] && d.Before.Omitted > 0:
		return UnlistedBefore
	case !in[0]:
		return New
	case !in[1] && d.After.Omitted > 0:
		return UnlistedAfter
	case !in[1]:
		return Gone
	}
	return Stayed
}

func (d *Diff) count(c *cell) {
	t, figure := &d.Sites, d.Figure.Of(&c.Sum)
	if c.Bytes.Before > 0 || c.Count.Before > 0 {
		t.Before++
	}
	if c.Bytes.After > 0 || c.Count.After > 0 {
		t.After++
	}
	switch d.state(c.in) {
	case New:
		t.New++
	case Gone:
		t.Gone++
	case UnlistedBefore:
		t.UnlistedBefore++
	case UnlistedAfter:
		t.UnlistedAfter++
	}
	switch {
	case !c.Changed():
		t.Unchanged++
	case figure.Change() > 0 || figure.Change() == 0 && c.Count.Change() > 0:
		t.Grown++
	default:
		t.Shrunk++
	}
}
