package probe

import (
	"debug/elf"

	"golang.org/x/arch/x86/x86asm"
)

// A jump through a register or through memory leads to a place of the function itself where it is that of a switch or a
// computed goto: it goes through an address that is picked out of a table, or taken of code of the function. Else it is
// a tail call through a pointer. Where to probe is decided for a function as a whole: any sign of a table will do.
// Where it returns hangs on each jump: a table must be seen there, or it counts as a pointer.

const notrack = 0x3e // compilers mark the jumps of switches so

// jumpTable says whether the function may jump to places of its own that its
// branches don't show.
func (b body) jumpTable() bool {
	for _, in := range b {
		if in.Op != x86asm.JMP {
			continue
		}
		switch to := in.Args[0].(type) {
		case x86asm.Mem:
			if to.Index != 0 {
				return true
			}
		case x86asm.Reg:
			if in.raw[0] == notrack || b.picksAddress(to) {
				return true
			}
		}
	}
	return false
}

// picksAddress says whether some instruction loads from a table of 32-bit
// offsets or, into reg, from one of addresses, or takes the address of code of
// the function.
func (b body) picksAddress(reg x86asm.Reg) bool {
	for _, in := range b {
		from, memory := in.Args[1].(x86asm.Mem)
		if !memory {
			continue
		}
		switch in.Op {
		case x86asm.MOVSXD:
			if from.Index != 0 {
				return true
			}
		case x86asm.LEA:
			if at, ok := in.relative(from); ok && b.holds(at) {
				return true
			}
		default:
			if from.Index != 0 && in.Args[0] == reg {
				return true
			}
		}
	}
	return false
}

// holds says whether an address is that of the function's code.
func (b body) holds(at uint64) bool { return at >= b[0].addr && at <= b[len(b)-1].addr }

// jumpsByTable says whether the indirect jump b[i] certainly leads to places of the function itself. isTable tells
// whether a table of such addresses lies somewhere in the file.
func (b body) jumpsByTable(i int, isTable func(uint64) bool) bool {
	if b[i].raw[0] == notrack {
		return true
	}
	switch to := b[i].Args[0].(type) {
	case x86asm.Mem:
		return b.readsTable(i, to, isTable)
	case x86asm.Reg:
		return b.picked(i, to, isTable)
	}
	return false
}

// picked says whether what b[i] finds in a register was picked out of a table.
func (b body) picked(i int, reg x86asm.Arg, isTable func(uint64) bool) bool {
	i, ok := b.writer(i, reg)
	if !ok {
		return false
	}
	in := b[i]
	switch from := in.Args[1].(type) {
	case x86asm.Mem:
		at, relative := in.relative(from)
		return in.Op == x86asm.LEA && relative && b.holds(at) || in.Op == x86asm.MOV && b.readsTable(i, from, isTable)
	case x86asm.Reg: // the table's address, and a distance from it
		return in.Op == x86asm.ADD && (b.loadsDistance(i, in.Args[0]) || b.loadsDistance(i, from))
	}
	return false
}

// loadsDistance says whether what b[i] finds in a register was loaded from a table of distances.
func (b body) loadsDistance(i int, reg x86asm.Arg) bool {
	for range maxWriters {
		at, ok := b.writer(i, reg)
		if !ok {
			return false
		}
		in := b[at]
		from, memory := in.Args[1].(x86asm.Mem)
		switch {
		case in.Op == x86asm.CDQE: // of what was loaded before
			i = at
		case in.Op == x86asm.MOVSXD && !memory:
			i, reg = at, in.Args[1]
		default:
			return memory && from.Index != 0 && (in.Op == x86asm.MOVSXD || in.Op == x86asm.MOV)
		}
	}
	return false
}

// readsTable says whether b[i] reads an address out of a table of them.
func (b body) readsTable(i int, from x86asm.Mem, isTable func(uint64) bool) bool {
	if from.Index == 0 || from.Scale != 8 {
		return false
	}
	at := uint64(int64(int32(from.Disp)))
	if from.Base == 0 {
		return isTable(at)
	}
	i, ok := b.writer(i, from.Base)
	if !ok || b[i].Op != x86asm.LEA {
		return false
	}
	base, memory := b[i].Args[1].(x86asm.Mem)
	begin, relative := b[i].relative(base)
	return memory && relative && isTable(begin+at)
}

// maxBack is how many instructions before a jump are looked at, and maxWriters how often from one to what it goes by.
const (
	maxBack    = 64
	maxWriters = 8
)

// writer is the instruction that has put into a register what b[i] finds there, copies left out; false where that can't
// be told from the instructions right before.
func (b body) writer(i int, reg x86asm.Arg) (int, bool) {
	n, general := register(reg)
	if !general {
		return 0, false
	}
	last := max(i-maxBack, 0)
	for i--; i >= last; i-- {
		in := b[i]
		switch f, _ := in.flow(); f {
		case flowBranch:
			continue
		case flowNext:
		default:
			return 0, false
		}
		e, known := effectOf(in)
		switch {
		case !known && !in.stores():
			return 0, false
		case e.writes>>n&1 == 0:
		case e.copyFrom >= 0:
			n = e.copyFrom
		default:
			return i, true
		}
	}
	return 0, false
}

// tableWords is how many words of a table are looked at: the first may lead into a part that lies elsewhere.
const tableWords = 4

// isTable says whether a table lies at an address whose words lead into the extent.
func (im *image) isTable(at uint64, extent span) bool {
	for _, p := range im.file.Progs {
		if p.Type != elf.PT_LOAD || at < p.Vaddr || at-p.Vaddr >= p.Filesz {
			continue
		}
		var raw [tableWords * 8]byte
		n, _ := p.ReadAt(raw[:], int64(at-p.Vaddr))
		for words := raw[:n]; len(words) >= 8; words = words[8:] {
			if to := im.order.Uint64(words); to >= extent.lo && to < extent.hi {
				return true
			}
		}
	}
	return false
}
