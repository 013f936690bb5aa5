package unwind

import (
	"slices"
	"sort"
)

// row is one rule and the address from which on it holds.
type row struct {
	at   uint64
	rule uint32 // index in rows.rules
}

// rows collects the rows of a file, each rule kept once.
type rows struct {
	machine *machine
	limits  []Range // of executable code; functions elsewhere are left out
	rules   []Rule
	index   map[Rule]uint32
	list    []row
	spans   []span
	bad     int
}

// span is a function's part of the list.
type span struct {
	start, end uint64
	from, to   int
}

// Range is a range of addresses, [Start, End).
type Range struct{ Start, End uint64 }

func newRows(m *machine, limits []Range) *rows {
	r := &rows{machine: m, limits: limits, index: make(map[Rule]uint32)}
	r.number(Rule{}) // rule 0 is None
	return r
}

func (r *rows) number(rule Rule) uint32 {
	n, ok := r.index[rule]
	if !ok {
		n = uint32(len(r.rules))
		r.rules = append(r.rules, rule)
		r.index[rule] = n
	}
	return n
}

// add runs the program of every function of s.
func (r *rows) add(s *section) {
	known := r.sorted()
	r.bad += s.each(func(f *fde) {
		if !r.inCode(f.start, f.end) || s.debug && covered(known, f.start) {
			return
		}
		r.function(s, f)
	})
}

func (r *rows) inCode(start, end uint64) bool {
	for _, limit := range r.limits {
		if start >= limit.Start && end <= limit.End {
			return true
		}
	}
	return false
}

func (r *rows) function(s *section, f *fde) {
	from := len(r.list)
	current := f.cie.initial
	p := program{section: s, cie: f.cie, state: &current, at: f.start}
	p.row = func(at uint64, st *state) {
		if at >= f.start && at < f.end {
			r.list = append(r.list, row{at, r.number(st.rule(r.machine, f.cie.signal))})
		}
	}
	if err := p.run(f.code); err != nil {
		r.bad++
		r.list = append(r.list[:from], row{f.start, 0})
	}
	// set_loc may go backwards, which no compiler makes it do.
	sort.SliceStable(r.list[from:], func(i, j int) bool { return r.list[from+i].at < r.list[from+j].at })
	r.spans = append(r.spans, span{f.start, f.end, from, len(r.list)})
}

func (r *rows) sorted() []span {
	spans := slices.Clone(r.spans)
	slices.SortStableFunc(spans, func(a, b span) int {
		if a.start < b.start {
			return -1
		}
		if a.start > b.start {
			return 1
		}
		return 0
	})
	return spans
}

// covered reports whether a function of sorted spans begins at or holds at.
func covered(spans []span, at uint64) bool {
	i := sort.Search(len(spans), func(i int) bool { return spans[i].start > at })
	return i > 0 && at < spans[i-1].end
}

// padding is how far apart functions may lie without a row that says that the
// code between them belongs to none: nothing runs in an assembler's fill.
const padding = 16

// merged returns the rows of all functions in order: where functions overlap
// the first keeps what is before the second's start. Rows that repeat the rule
// before them are left out.
func (r *rows) merged() []row {
	spans := r.sorted()
	out := make([]row, 0, len(r.list))
	emit := func(at uint64, rule uint32) {
		if n := len(out); n > 0 && out[n-1].at == at {
			out = out[:n-1]
		}
		if n := len(out); n > 0 && out[n-1].rule == rule || n == 0 && rule == 0 {
			return
		}
		out = append(out, row{at, rule})
	}
	for i, s := range spans {
		end := s.end
		if i+1 < len(spans) {
			end = min(end, spans[i+1].start)
		}
		for _, row := range r.list[s.from:s.to] {
			if row.at < end {
				emit(row.at, row.rule)
			}
		}
		if i+1 == len(spans) || spans[i+1].start-end >= padding {
			emit(end, 0)
		}
	}
	return out
}
