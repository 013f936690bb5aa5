package dwarf

import (
	"cmp"
	"slices"
)

// Opcodes of line programs (DWARF 5, section 7.22).
const (
	lnsCopy           = 1
	lnsAdvancePC      = 2
	lnsAdvanceLine    = 3
	lnsSetFile        = 4
	lnsConstAddPC     = 8
	lnsFixedAdvancePC = 9
	lneEndSequence    = 1
	lneSetAddress     = 2
	lneDefineFile     = 3
	lastSpecial       = 255 // the opcode whose advance DW_LNS_const_add_pc takes
)

// lineProgram runs a line program and keeps what maps addresses to lines:
// columns, statements and discriminators are left out, and with them all rows
// that differ in nothing else.
type lineProgram struct {
	h    *lineHeader
	t    *lineTable
	work *budget

	maxRows int

	addr  uint64
	file  uint64
	line  int64
	first int // row of the sequence
	sane  bool
}

func (p *lineProgram) reset() {
	p.addr, p.file, p.line, p.first, p.sane = 0, 1, 1, len(p.t.rows), true
}

func (p *lineProgram) run() error {
	c := &p.h.program
	p.reset()
	for !c.done() {
		if !p.work.spend(1) || len(p.t.rows) > p.maxRows {
			return errBudget
		}
		switch op := c.u8(); {
		case op >= p.h.opcodeBase:
			p.special(op)
		case op == 0:
			p.extended(c)
		default:
			p.standard(c, op)
		}
	}
	// Rows of a sequence without an end have no upper bound: drop them.
	p.t.rows = p.t.rows[:p.first]
	if c.bad {
		return errLines
	}
	return nil
}

// advance moves the address by n operations. Instructions of several
// operations (VLIW) are no concern here.
func (p *lineProgram) advance(n uint64) {
	p.addr += n * uint64(p.h.minInst)
}

func (p *lineProgram) special(op uint8) {
	adjusted := op - p.h.opcodeBase
	p.advance(uint64(adjusted / p.h.lineRange))
	p.line += int64(p.h.lineBase) + int64(adjusted%p.h.lineRange)
	p.emit()
}

func (p *lineProgram) standard(c *cursor, op uint8) {
	switch op {
	case lnsCopy:
		p.emit()
	case lnsAdvancePC:
		p.advance(c.uleb())
	case lnsAdvanceLine:
		p.line += c.sleb()
	case lnsSetFile:
		p.file = c.uleb()
	case lnsConstAddPC:
		p.advance(uint64((lastSpecial - p.h.opcodeBase) / p.h.lineRange))
	case lnsFixedAdvancePC:
		p.addr += uint64(c.u16())
	default:
		// The header says how many operands those have that are unknown.
		p.work.spend(int(p.h.operands[op-1]) / attrWork)
		for range p.h.operands[op-1] {
			c.uleb()
		}
	}
}

func (p *lineProgram) extended(c *cursor) {
	n := c.uleb()
	end := c.pos + n
	if c.bad || n == 0 || n > uint64(len(c.data))-c.pos {
		c.fail()
		return
	}
	switch c.u8() {
	case lneEndSequence:
		p.endSequence()
	case lneSetAddress:
		if n-1 != 4 && n-1 != 8 {
			c.fail()
			return
		}
		p.addr = c.uint(uint8(n - 1))
	case lneDefineFile:
		if len(p.t.files) < maxFiles {
			p.t.files = append(p.t.files, fileEntry{name: c.cstring(), dir: c.uleb()})
		}
	}
	if !c.bad {
		c.pos = end
	}
}

// emit adds a row, in place of one at the same address, which covers nothing.
func (p *lineProgram) emit() {
	rows := p.t.rows
	next := row{addr: p.addr, line: uint32(max(0, min(p.line, 1<<31-1))), file: uint32(min(p.file, 1<<32-1))}
	if n := len(rows); n > p.first {
		last := rows[n-1]
		if last.addr == next.addr {
			rows[n-1] = next
			return
		}
		if last.line == next.line && last.file == next.file && last.addr < next.addr {
			return
		}
		p.sane = p.sane && last.addr < next.addr
	}
	p.t.rows = append(rows, next)
}

// endSequence closes the sequence at the current address.
func (p *lineProgram) endSequence() {
	rows := p.t.rows[p.first:]
	if !p.sane {
		p.work.spend(8 * sortWork * len(rows))
		slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(a.addr, b.addr) })
	}
	// A linker puts the lines of functions that it removed at 0 or the top.
	if len(rows) > 0 && rows[0].addr >= 2 && rows[0].addr < p.addr {
		p.work.spend(sortWork)
		p.t.sequences = append(p.t.sequences, sequence{lo: rows[0].addr, hi: p.addr, first: p.first, last: len(p.t.rows)})
	} else {
		p.t.rows = p.t.rows[:p.first]
	}
	p.reset()
}
