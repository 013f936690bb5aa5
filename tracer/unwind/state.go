package unwind

import "math"

// place says where a register of the caller is.
type place struct {
	kind   placeKind
	offset int64
	expr   []byte
}

type placeKind uint8

const (
	unchanged placeKind = iota
	undefined
	fromCFA   // at CFA + offset
	atExpr    // at the address that expr computes
	elsewhere // in another register, or computed: the unwinder can't follow
)

// state is a row of the table that an entry's instructions build.
type state struct {
	cfaReg    uint64
	cfaOffset int64
	cfaExpr   []byte // instead of the two, unless nil
	ra        place
	saved     [SavedRegisters]place
}

func newState(m *machine) state {
	return state{cfaReg: m.sp}
}

// place returns where register reg is kept, nil if nobody asks.
func (s *state) place(m *machine, reg uint64) *place {
	if reg == m.ra {
		return &s.ra
	}
	if i := m.index(reg); i >= 0 {
		return &s.saved[i]
	}
	return nil
}

// rule turns the row into what the unwinder follows. What it can't follow is
// a rule of kind None.
func (s *state) rule(m *machine, signal bool) Rule {
	if signal {
		return Rule{Kind: Signal}
	}
	if s.ra.kind == undefined {
		return Rule{Kind: End}
	}
	r, ok := s.cfaRule(m)
	if !ok || r.Kind == PLT {
		return r
	}
	for i := range s.saved {
		from := &s.saved[i]
		if i == m.raSaved {
			from = &s.ra
		}
		if !r.keep(m, i, from) {
			return Rule{}
		}
	}
	if m.raSaved < 0 && (s.ra.kind != fromCFA || s.ra.offset != -8) {
		return Rule{}
	}
	if m.raSaved >= 0 && s.ra.kind == fromCFA && s.ra.offset > 0 {
		return r.raised(s.ra.offset)
	}
	return r
}

// raised is the rule of a frame whose return address is said to be saved at ra bytes above its CFA, where the frame
// has ended: the CFA is further up. glibc's lazy resolver on arm64 forgets the 16 bytes that the linkage table
// has pushed (sysdeps/aarch64/dl-trampoline.S, _dl_runtime_resolve); the stack of its caller would be off by as much.
func (r Rule) raised(ra int64) Rule {
	const align = 16 // of the stack pointer in calls (AAPCS64)
	by := (ra + 8 + align - 1) &^ (align - 1)
	if r.Kind == Deref || r.CFA > math.MaxInt32-int32(by) {
		return Rule{}
	}
	r.CFA += int32(by)
	for i := range r.Saved {
		if r.Saved[i] == 0 || r.FromFP>>i&1 != 0 {
			continue
		}
		at := int64(r.Saved[i]) - by/8
		if at == 0 || at != int64(int16(at)) {
			return Rule{}
		}
		r.Saved[i] = int16(at)
	}
	return r
}

// cfaRule is the part of the rule that finds the CFA.
func (s *state) cfaRule(m *machine) (Rule, bool) {
	if s.cfaExpr != nil {
		return exprCFA(m, s.cfaExpr)
	}
	if s.cfaOffset != int64(int32(s.cfaOffset)) {
		return Rule{}, false
	}
	r := Rule{CFA: int32(s.cfaOffset)}
	switch i := m.index(s.cfaReg); {
	case s.cfaReg == m.sp:
		r.Kind = SP
	case s.cfaReg == m.fp:
		r.Kind = FP
	case i >= 0 && i != m.raSaved:
		r.Kind, r.Reg = Register, uint8(i)
	default:
		return Rule{}, false
	}
	return r, true
}

// keep records where register i is saved.
func (r *Rule) keep(m *machine, i int, from *place) bool {
	offset := from.offset
	switch from.kind {
	case unchanged, undefined:
		return true
	case fromCFA:
		if offset == 0 {
			return false // no compiler does, and 0 means not saved
		}
	case atExpr:
		reg, at, ok := exprAddress(from.expr)
		if !ok || reg != m.fp {
			return i != 0 && i != m.raSaved // only what later frames may need
		}
		offset = at
		r.FromFP |= 1 << i
	case elsewhere:
		return i != 0 && i != m.raSaved
	}
	if offset%8 != 0 || offset/8 != int64(int16(offset/8)) {
		return false
	}
	r.Saved[i] = int16(offset / 8)
	return true
}
