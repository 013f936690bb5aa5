package unwind

import (
	"cmp"
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

	program program // reused: files have tens of thousands of functions
	state   state
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
	p := &r.program
	p.row = func(at uint64, st *state) {
		if at >= p.start && at < p.end {
			r.list = append(r.list, row{at, r.number(st.rule(r.machine, p.cie.signal))})
		}
	}
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
	r.state = f.cie.initial
	p := &r.program
	*p = program{section: s, cie: f.cie, state: &r.state, at: f.start, remembered: p.remembered[:0], row: p.row}
	p.start, p.end = f.start, f.end
	if err := p.run(f.code); err != nil {
		r.bad++
		r.list = append(r.list[:from], row{f.start, 0})
	}
	// set_loc may go backwards, which no compiler makes it do.
	if byAddress := func(a, b row) int { return cmp.Compare(a.at, b.at) }; !slices.IsSortedFunc(r.list[from:], byAddress) {
		slices.SortStableFunc(r.list[from:], byAddress)
	}
	r.spans = append(r.spans, span{f.start, f.end, from, len(r.list)})
}

func (r *rows) sorted() []span {
	spans := slices.Clone(r.spans)
	slices.SortStableFunc(spans, func(a, b span) int { return cmp.Compare(a.start, b.start) })
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

// maxStartContext bounds the functions that may be __start_context: 26 bytes
// in glibc 2.36, more where it keeps a shadow stack.
const maxStartContext = 64

// merged returns the rows of all functions in order: where functions overlap
// the first keeps what is before the second's start. Rows that repeat the rule
// before them are left out.
//
// Return addresses are looked up less one. makecontext(3) makes one that is
// the very start of a function (__start_context, which has no proper rows), for
// the bottom of the new stack. No call returns there: so the fill before a
// function that could be such a one ends the stack.
func (r *rows) merged() []row {
	spans := r.sorted()
	m := merge{out: make([]row, 0, len(r.list))}
	for i, s := range spans {
		end, next := s.end, uint64(0)
		if i+1 < len(spans) {
			next = spans[i+1].start
			end = min(end, next)
		}
		if s.end-s.start <= maxStartContext && s.to-s.from == 1 && s.start > m.end && r.inCode(s.start-1, s.start) {
			m.add(row{s.start - 1, r.number(Rule{Kind: End})})
		}
		for _, row := range r.list[s.from:s.to] {
			if row.at < end {
				m.add(row)
			}
		}
		m.end = end
		if next == 0 || next-end >= padding {
			m.add(row{end, 0})
		}
	}
	return m.out
}

// merge collects rows in order of address.
type merge struct {
	out []row
	end uint64 // of the last function
}

func (m *merge) add(r row) {
	if n := len(m.out); n > 0 && m.out[n-1].at == r.at {
		m.out = m.out[:n-1]
	}
	if n := len(m.out); n > 0 && m.out[n-1].rule == r.rule || n == 0 && r.rule == 0 {
		return
	}
	m.out = append(m.out, r)
}
