package unwind

// Operations of DWARF expressions that compilers and linkers use here.
const (
	opDeref      = 0x06
	opAnd        = 0x1a
	opPlus       = 0x22
	opPlusUconst = 0x23
	opShl        = 0x24
	opGe         = 0x2a
	opLit0       = 0x30
	opLit31      = 0x4f
	opBreg0      = 0x70
	opBreg31     = 0x8f
	opBregx      = 0x92
)

// exprAddress recognises "register plus offset".
func exprAddress(expr []byte) (reg uint64, offset int64, ok bool) {
	c := cursor{data: expr}
	reg, offset = c.breg()
	return reg, offset, c.err == nil && c.at == len(expr)
}

// breg reads a DW_OP_bregN.
func (c *cursor) breg() (reg uint64, offset int64) {
	switch op := c.u8(); {
	case op >= opBreg0 && op <= opBreg31:
		reg = op - opBreg0
	case op == opBregx:
		reg = c.uleb()
	default:
		c.fail(errShort)
	}
	return reg, c.sleb()
}

// exprCFA recognises the expressions that compute a CFA: a plain sum, a
// dereference (functions that realign the stack), and that of a PLT.
func exprCFA(m *machine, expr []byte) (Rule, bool) {
	c := cursor{data: expr}
	reg, offset := c.breg()
	if c.err != nil || offset != int64(int32(offset)) {
		return Rule{}, false
	}
	if c.done() {
		s := state{cfaReg: reg, cfaOffset: offset}
		return s.cfaRule(m)
	}
	if c.u8() == opDeref && c.done() {
		if i := m.index(reg); i >= 0 && i != m.raSaved {
			return Rule{Kind: Deref, Reg: uint8(i), CFA: int32(offset)}, true
		}
		return Rule{}, false
	}
	return exprPLT(m, expr)
}

// exprPLT recognises sp+8 + (((pc & 15) >= N) << 3), which linkers write for
// the procedure linkage table: from byte N of an entry on, a word is pushed.
func exprPLT(m *machine, expr []byte) (Rule, bool) {
	c := cursor{data: expr}
	spReg, spOffset := c.breg()
	pcReg, pcOffset := c.breg()
	mask, and := c.u8(), c.u8()
	n, ge := c.u8(), c.u8()
	shift, shl := c.u8(), c.u8()
	plus := c.u8()
	ok := c.err == nil && c.done() &&
		spReg == m.sp && spOffset == 8 && pcReg == m.ra && pcOffset == 0 &&
		mask == opLit0+15 && and == opAnd && n >= opLit0 && n <= opLit0+15 && ge == opGe &&
		shift == opLit0+3 && shl == opShl && plus == opPlus
	if !ok || m.raSaved >= 0 {
		return Rule{}, false
	}
	return Rule{Kind: PLT, Param: uint8(n - opLit0)}, true
}
