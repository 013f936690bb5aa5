package unwind

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
)

// row is one rule and the address from which on it holds.
type row struct {
	at   uint64
	rule uint32 // index in rows.rules
}

// spanRow is a row of a function: its address counts from the function's.
type spanRow struct{ offset, rule uint32 }

// rowList is a long list that grows without being copied.
type rowList struct {
	chunks [][]spanRow
	n      int
}

const rowChunk = 16 << 10

func (l *rowList) add(r spanRow) {
	if l.n == len(l.chunks)*rowChunk {
		l.chunks = append(l.chunks, make([]spanRow, rowChunk))
	}
	*l.at(l.n) = r
	l.n++
}

func (l *rowList) at(i int) *spanRow { return &l.chunks[i/rowChunk][i%rowChunk] }

// rows collects the rows of a file, each rule kept once.
type rows struct {
	machine *machine
	limits  []Range // of executable code; functions elsewhere are left out
	rules   []Rule
	index   map[Rule]uint32
	list    rowList
	spans   []span
	bad     int
	lost    int // rows
	cost    int // bytes
	steps   int
	full    bool // the file asks for more

	program program // reused: files have tens of thousands of functions
	state   state
	rule    uint32 // of state
	raw     int    // rows of the function, those that repeat the rule before them included
}

// span is a function's part of the list.
type span struct {
	start   uint64
	size    uint32
	from, n uint32
	single  bool // the function has one row
}

func (s span) end() uint64 { return s.start + uint64(s.size) }

// Range is a range of addresses, [Start, End).
type Range struct{ Start, End uint64 }

func newRows(m *machine, limits []Range) *rows {
	r := &rows{machine: m, limits: limits, index: make(map[Rule]uint32)}
	r.number(Rule{}) // rule 0 is None
	r.program.row = r.row
	return r
}

// row takes a row of the function that is being read. A row that repeats the rule before it is none.
func (r *rows) row(at uint64, st *state) error {
	p := &r.program
	if at < p.start || at >= p.end {
		return nil
	}
	if p.changed {
		if !r.step() {
			return ErrTooMuch
		}
		r.rule, p.changed = r.number(st.rule(r.machine, p.cie.signal)), false
	}
	r.raw++
	s, offset := &r.spans[len(r.spans)-1], uint32(at-p.start)
	if s.n > 0 {
		last := r.list.at(r.list.n - 1)
		switch {
		case offset < last.offset:
			return fmt.Errorf("rows of the function at %#x go backwards", p.start)
		case offset == last.offset:
			r.list.n--
			s.n--
			r.cost -= rowCost
		}
	}
	if s.n > 0 && r.list.at(r.list.n-1).rule == r.rule {
		return nil
	}
	return r.put(offset, r.rule)
}

// put adds a row to the last function.
func (r *rows) put(offset, rule uint32) error {
	if !r.spend(rowCost) {
		return ErrTooMuch
	}
	r.list.add(spanRow{offset, rule})
	r.spans[len(r.spans)-1].n++
	return nil
}

// open adds a function that has no rows yet.
func (r *rows) open(start, end uint64) bool {
	if end-start > maxText || !r.spend(spanCost) {
		r.bad++
		return false
	}
	r.spans = append(r.spans, span{start: start, size: uint32(end - start), from: uint32(r.list.n)})
	return true
}

// whole adds a function that has one rule.
func (r *rows) whole(start, end uint64, rule Rule) {
	if r.open(start, end) {
		_ = r.put(0, r.number(rule)) // what has no room is told by err
		r.spans[len(r.spans)-1].single = true
	}
}

// number returns the number of a rule; a file that has too many loses the others.
func (r *rows) number(rule Rule) uint32 {
	n, ok := r.index[rule]
	if !ok {
		if len(r.rules) == maxRules {
			r.lost++
			return 0
		}
		n = uint32(len(r.rules))
		r.rules = append(r.rules, rule)
		r.index[rule] = n
	}
	return n
}

// add runs the program of every function of s.
func (r *rows) add(s *section) {
	known := r.sorted()
	r.spans = slices.Grow(r.spans, min(s.entries(), maxBuild/(spanCost+rowCost)))
	r.bad += s.each(func(f *fde) bool {
		if r.inCode(f.start, f.end) && !(s.debug && covered(known, f.start)) {
			r.function(s, f)
		}
		return !r.full
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
	if !r.open(f.start, f.end) {
		return
	}
	r.state, r.raw = f.cie.initial, 0
	p := &r.program
	*p = program{section: s, cie: f.cie, state: &r.state, at: f.start, changed: true, remembered: p.remembered[:0], row: p.row}
	p.start, p.end = f.start, f.end
	last := &r.spans[len(r.spans)-1]
	if err := p.run(f.code); err != nil {
		r.bad++
		r.cost -= rowCost * int(last.n)
		r.list.n, last.n, r.raw = int(last.from), 0, 1
		_ = r.put(0, 0)
	}
	last.single = r.raw == 1
}

// sorted returns the functions in order.
func (r *rows) sorted() []span {
	slices.SortStableFunc(r.spans, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	return r.spans
}

// covered reports whether a function of sorted spans begins at or holds at.
func covered(spans []span, at uint64) bool {
	i := sort.Search(len(spans), func(i int) bool { return spans[i].start > at })
	return i > 0 && at < spans[i-1].end()
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
	m := merge{out: make([]row, 0, r.list.n+len(spans))}
	for i, s := range spans {
		end, next := s.end(), uint64(0)
		if i+1 < len(spans) {
			next = spans[i+1].start
			end = min(end, next)
		}
		if s.size <= maxStartContext && s.single && s.start > m.end && r.inCode(s.start-1, s.start) {
			m.add(row{s.start - 1, r.number(Rule{Kind: End})})
		}
		for j := range s.n {
			row := row{s.start + uint64(r.list.at(int(s.from+j)).offset), r.list.at(int(s.from + j)).rule}
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
