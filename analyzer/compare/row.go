package compare

import (
	"cmp"
	"slices"
	"strings"

	"github.com/memtrace/memtrace/analyzer/report"
)

// State says which of the Reports has a row.
type State string

// The states of a Row.
const (
	Stayed State = "stayed"
	New    State = "new"
	Gone   State = "gone"
	// The other Report does not have it, and leaves sites out: it may be one of them.
	UnlistedBefore State = "unlisted_before"
	UnlistedAfter  State = "unlisted_after"
)

// Unlisted is the key of what the Reports leave out.
const Unlisted = "[sites not listed]"

// Row is a call site, or sites that have something in common.
type Row struct {
	// Key is what the sites have in common: the fingerprint, or the name of the function, file,
	// module or process.
	Key   string
	Site  *report.Site // by site: one of them, the last Report's if it has it; else nil
	State State
	Sum
	Sites     [2]int // of the Reports, before and after, but for those that have nothing on either side
	Processes [2]int // by process: those of this name, before and after
	// Unsure says that Grown and Shrunk may be too large: a part of the row is listed by one Report
	// alone, and the other leaves sites out. See ChangeUnsure.
	Unsure bool
	in     [2]bool
}

// Changed keeps the rows that changed, and adds up the others.
func (d *Diff) Changed() (changed []Row, same Rest) {
	for i := range d.Rows {
		if d.Rows[i].Changed() {
			changed = append(changed, d.Rows[i])
		} else {
			same.add(&d.Rows[i])
		}
	}
	return changed, same
}

// Rest is the sum of rows that are not shown.
type Rest struct {
	Rows int
	Sum
}

func (r *Rest) add(row *Row) {
	r.Rows++
	r.Sum.Add(&row.Sum)
}

// First keeps the n rows in which most grew or shrank, in their order, and adds up the others; 0
// keeps all.
func (d *Diff) First(rows []Row, n int) (shown []Row, rest Rest) {
	if n <= 0 || n >= len(rows) {
		return rows, rest
	}
	byMoved := make([]int, len(rows))
	for i := range byMoved {
		byMoved[i] = i
	}
	slices.SortStableFunc(byMoved, func(a, b int) int {
		x, y := &rows[a], &rows[b]
		return cmp.Or(cmp.Compare(d.Figure.Of(&y.Sum).Moved(), d.Figure.Of(&x.Sum).Moved()),
			cmp.Compare(y.Count.Moved(), x.Count.Moved()))
	})
	for _, i := range byMoved[n:] {
		rest.add(&rows[i])
	}
	kept := byMoved[:n]
	slices.Sort(kept)
	for _, i := range kept {
		shown = append(shown, rows[i])
	}
	return shown, rest
}

// sort orders the rows by what they changed, the largest growth first and what shrank most last.
func (d *Diff) sort() {
	slices.SortFunc(d.Rows, func(a, b Row) int {
		x, y := d.Figure.Of(&a.Sum), d.Figure.Of(&b.Sum)
		return cmp.Or(cmp.Compare(y.Change(), x.Change()), cmp.Compare(b.Count.Change(), a.Count.Change()),
			cmp.Compare(y.After, x.After), strings.Compare(a.label(), b.label()), strings.Compare(a.Key, b.Key))
	})
}

// ChangeUnsure reports whether the change of a row may be another for what the Reports leave out. Of a
// process it is known all the same where its sums are.
func (d *Diff) ChangeUnsure(r *Row) bool { return r.Unsure && (!d.ByProcess() || d.Partial()) }

// Partial reports whether what a Report leaves out is in no total.
func (d *Diff) Partial() bool { return d.Before.Partial || d.After.Partial }

// label is by what rows that are alike are ordered.
func (r *Row) label() string {
	if r.Site != nil {
		return r.Site.Function
	}
	return r.Key
}
