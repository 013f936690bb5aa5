package unwind

import "fmt"

// Call frame instructions, DW_CFA_*.
const (
	cfaNop               = 0x00
	cfaSetLoc            = 0x01
	cfaAdvanceLoc1       = 0x02
	cfaAdvanceLoc2       = 0x03
	cfaAdvanceLoc4       = 0x04
	cfaOffsetExtended    = 0x05
	cfaRestoreExtended   = 0x06
	cfaUndefined         = 0x07
	cfaSameValue         = 0x08
	cfaRegister          = 0x09
	cfaRememberState     = 0x0a
	cfaRestoreState      = 0x0b
	cfaDefCFA            = 0x0c
	cfaDefCFARegister    = 0x0d
	cfaDefCFAOffset      = 0x0e
	cfaDefCFAExpression  = 0x0f
	cfaExpression        = 0x10
	cfaOffsetExtendedSF  = 0x11
	cfaDefCFASF          = 0x12
	cfaDefCFAOffsetSF    = 0x13
	cfaValOffset         = 0x14
	cfaValOffsetSF       = 0x15
	cfaValExpression     = 0x16
	cfaNegateRAState     = 0x2d // AArch64
	cfaGNUArgsSize       = 0x2e
	cfaGNUNegativeOffset = 0x2f
	cfaAdvanceLoc        = 0x40 // the upper two bits
	cfaOffset            = 0x80
	cfaRestore           = 0xc0
)

// maxRemembered bounds the stack of remembered states; compilers nest one or two.
const maxRemembered = 64

// program runs call frame instructions.
type program struct {
	section    *section
	cie        *cie
	state      *state
	at         uint64 // the address that state is of
	start, end uint64 // of the function; rows beyond are left out
	remembered []state
	changed    bool // the state, since the row before

	// row is called with the state for the addresses from at on, before the
	// address moves and at the end.
	row func(at uint64, s *state) error
}

// run executes code.
func (p *program) run(code []byte) error {
	c := cursor{data: code}
	for !c.done() {
		if err := p.step(&c); err != nil {
			return err
		}
	}
	if c.err != nil {
		return c.err
	}
	return p.move(p.at)
}

// move ends the row for the address.
func (p *program) move(to uint64) error {
	if p.row != nil {
		if err := p.row(p.at, p.state); err != nil {
			return err
		}
	}
	p.at = to
	return nil
}

// step executes one instruction.
func (p *program) step(c *cursor) error {
	op := c.u8()
	low := op & 0x3f
	switch op & 0xc0 {
	case cfaAdvanceLoc:
		return p.move(p.at + low*p.cie.codeAlign)
	case cfaOffset:
		p.set(low, place{kind: fromCFA, offset: int64(c.uleb()) * p.cie.dataAlign})
		return nil
	case cfaRestore:
		p.restore(low)
		return nil
	}
	switch op {
	case cfaNop, cfaNegateRAState:
	case cfaSetLoc:
		return p.move(c.pointer(p.cie.encoding, p.section.address, p.section.hdr))
	case cfaAdvanceLoc1:
		return p.move(p.at + c.u8()*p.cie.codeAlign)
	case cfaAdvanceLoc2:
		return p.move(p.at + c.u16()*p.cie.codeAlign)
	case cfaAdvanceLoc4:
		return p.move(p.at + c.u32()*p.cie.codeAlign)
	case cfaRememberState:
		if len(p.remembered) == maxRemembered {
			return fmt.Errorf("more than %d remembered states", maxRemembered)
		}
		p.remembered = append(p.remembered, *p.state)
	case cfaRestoreState:
		if len(p.remembered) == 0 {
			return fmt.Errorf("no remembered state to restore")
		}
		*p.state = p.remembered[len(p.remembered)-1]
		p.remembered, p.changed = p.remembered[:len(p.remembered)-1], true
	case cfaDefCFA, cfaDefCFARegister, cfaDefCFAOffset, cfaDefCFAExpression, cfaDefCFASF, cfaDefCFAOffsetSF:
		p.defineCFA(op, c)
	default:
		return p.defineRegister(op, c)
	}
	return nil
}

func (p *program) defineCFA(op uint64, c *cursor) {
	s := p.state
	p.changed = true
	switch op {
	case cfaDefCFA:
		s.cfaReg, s.cfaOffset, s.cfaExpr = c.uleb(), int64(c.uleb()), nil
	case cfaDefCFASF:
		s.cfaReg, s.cfaOffset, s.cfaExpr = c.uleb(), c.sleb()*p.cie.dataAlign, nil
	case cfaDefCFARegister:
		s.cfaReg, s.cfaExpr = c.uleb(), nil
	case cfaDefCFAOffset:
		s.cfaOffset = int64(c.uleb())
	case cfaDefCFAOffsetSF:
		s.cfaOffset = c.sleb() * p.cie.dataAlign
	case cfaDefCFAExpression:
		s.cfaExpr = c.block()
	}
}

func (p *program) defineRegister(op uint64, c *cursor) error {
	if op == cfaGNUArgsSize {
		c.uleb()
		return nil
	}
	reg := c.uleb()
	switch op {
	case cfaOffsetExtended:
		p.set(reg, place{kind: fromCFA, offset: int64(c.uleb()) * p.cie.dataAlign})
	case cfaOffsetExtendedSF:
		p.set(reg, place{kind: fromCFA, offset: c.sleb() * p.cie.dataAlign})
	case cfaGNUNegativeOffset:
		p.set(reg, place{kind: fromCFA, offset: -int64(c.uleb()) * p.cie.dataAlign})
	case cfaRestoreExtended:
		p.restore(reg)
	case cfaUndefined:
		p.set(reg, place{kind: undefined})
	case cfaSameValue:
		p.set(reg, place{})
	case cfaRegister:
		c.uleb()
		p.set(reg, place{kind: elsewhere})
	case cfaExpression:
		p.set(reg, place{kind: atExpr, expr: c.block()})
	case cfaValOffset:
		c.uleb()
		p.set(reg, place{kind: elsewhere})
	case cfaValOffsetSF:
		c.sleb()
		p.set(reg, place{kind: elsewhere})
	case cfaValExpression:
		c.block()
		p.set(reg, place{kind: elsewhere})
	default:
		return fmt.Errorf("unknown call frame instruction %#x", op)
	}
	return nil
}

// block reads an expression.
func (c *cursor) block() []byte {
	n := c.uleb()
	if n > uint64(len(c.data)-c.at) {
		c.fail(errShort)
		return []byte{}
	}
	return c.take(int(n))
}

func (p *program) set(reg uint64, to place) {
	if at := p.state.place(p.section.machine, reg); at != nil {
		*at, p.changed = to, true
	}
}

func (p *program) restore(reg uint64) {
	if from := p.cie.initial.place(p.section.machine, reg); from != nil {
		p.set(reg, *from)
	}
}
