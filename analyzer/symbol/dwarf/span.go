package dwarf

import (
	"cmp"
	"slices"
	"sort"
)

const (
	// maxOverlap is how many ranges below the nearest are looked at for one
	// that reaches over the address.
	maxOverlap = 64
	// sortWork is what it takes to sort a range, beside reading it.
	sortWork = 4
)

// span says that the addresses from lo up to hi belong to ref.
type span struct{ lo, hi, ref uint64 }

// spanTable is spans ascending by lo; they may overlap.
type spanTable struct{ spans []span }

// add appends a span; false means that there would be more than most.
func (t *spanTable) add(lo, hi, ref uint64, most int) bool {
	if len(t.spans) >= most {
		return false
	}
	t.spans = append(t.spans, span{lo, hi, ref})
	return true
}

func (t *spanTable) sort() {
	slices.SortFunc(t.spans, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.lo, b.lo), cmp.Compare(b.hi, a.hi), cmp.Compare(a.ref, b.ref))
	})
	t.spans = slices.Clip(t.spans)
}

// find calls visit with each span that covers addr, the one that starts
// nearest first, until it returns false.
func (t *spanTable) find(addr uint64, visit func(span) bool) {
	i := sort.Search(len(t.spans), func(i int) bool { return t.spans[i].lo > addr })
	for back := i - 1; back >= max(0, i-maxOverlap); back-- {
		if s := t.spans[back]; addr < s.hi && !visit(s) {
			return
		}
	}
}
