package probe

import (
	"slices"

	"golang.org/x/arch/x86/x86asm"
)

// access is one to memory on a way through a function.
type access struct {
	at     formula
	bytes  int
	isRead bool
}

// way is one through a function, up to an instruction.
type way struct {
	at       uint64
	regs     [16]formula
	accesses []access
	most     uint64 // the first argument is not larger
	compared uint64 // the last instruction compared the first argument with this; 0: it did not
}

const (
	maxSteps    = 4096 // of all ways through a function
	maxVisits   = 3    // of an instruction
	maxAccesses = 256  // of a way
	maxWays     = 256  // at a time; others are not followed
)

// evaluator follows the ways through a function's code. It takes calculations
// with 32 bits for those with 64.
type evaluator struct {
	*atoms
	im    *image
	code  map[uint64]x86Inst
	ways  []way
	visit map[uint64]int
}

func newEvaluator(im *image, code body) *evaluator {
	e := &evaluator{atoms: newAtoms(), im: im, code: make(map[uint64]x86Inst, len(code)), visit: map[uint64]int{}}
	for _, in := range code {
		e.code[in.addr] = in
	}
	first := way{at: code[0].addr, most: 1<<64 - 1}
	for i := range first.regs {
		first.regs[i] = e.fresh()
	}
	first.regs[encRDI] = e.formula(atom{kind: argument})
	e.ways = []way{first}
	return e
}

// follow calls found after each access to memory, with the way to there, until it
// answers true.
func (e *evaluator) follow(found func(*way) bool) {
	steps := 0
	for len(e.ways) > 0 {
		w := e.ways[len(e.ways)-1]
		e.ways = e.ways[:len(e.ways)-1]
		for ; steps < maxSteps; steps++ {
			in, known := e.code[w.at]
			if !known || e.visit[w.at] == maxVisits {
				break
			}
			e.visit[w.at]++
			before := len(w.accesses)
			e.step(&w, in)
			if len(w.accesses) > before && found(&w) {
				return
			}
			if len(w.accesses) > maxAccesses || !e.pass(&w, in) {
				break
			}
		}
	}
}

// pass goes on to the next instruction, and keeps the other one for later.
func (e *evaluator) pass(w *way, in x86Inst) bool {
	kind, target := in.flow()
	taken, next := w.bounds(in)
	w.at = in.next()
	switch kind {
	case flowEnd:
		return false
	case flowJump:
		w.at = target
	case flowBranch:
		if len(e.ways) < maxWays {
			branch := *w
			branch.accesses = slices.Clone(w.accesses)
			branch.at, branch.most = target, taken
			e.ways = append(e.ways, branch)
		}
		w.most = next
	}
	return true
}

// bounds are those of the first argument where a branch is taken and where it isn't.
func (w *way) bounds(in x86Inst) (taken, next uint64) {
	taken, next = w.most, w.most
	if w.compared == 0 {
		return taken, next
	}
	switch in.Op {
	case x86asm.JA:
		next = min(next, w.compared)
	case x86asm.JAE:
		next = min(next, w.compared-1)
	case x86asm.JBE:
		taken = min(taken, w.compared)
	case x86asm.JB:
		taken = min(taken, w.compared-1)
	}
	return taken, next
}

// step applies an instruction to what is known on a way.
func (e *evaluator) step(w *way, in x86Inst) {
	for _, arg := range in.Args[:2] {
		if mem, ok := arg.(x86asm.Mem); ok && in.Op != x86asm.LEA && in.Op != x86asm.NOP {
			isRead := arg == in.Args[1] || readOnly[in.Op]
			w.accesses = append(w.accesses, access{e.address(w, in, mem), in.MemBytes, isRead})
		}
	}
	e.compare(w, in)
	value, to := e.result(w, in)
	switch kind, _ := in.flow(); {
	case kind == flowCall:
		for _, n := range []int{0, 1, 2, 6, 7, 8, 9, 10, 11} { // which callees may change
			w.regs[n] = e.fresh()
		}
	case kind != flowNext || in.stores():
	case to >= 0:
		w.regs[to] = value
	default:
		e.forget(w, in)
	}
}

// compare notes what the first argument is compared with.
func (e *evaluator) compare(w *way, in x86Inst) {
	kind, _ := in.flow()
	switch {
	case in.Op == x86asm.MOV || in.Op == x86asm.MOVZX || in.Op == x86asm.LEA || in.Op == x86asm.NOP || kind == flowBranch:
		return // which leave the flags as they are
	}
	w.compared = 0
	n, ok := register(in.Args[0])
	if in.Op != x86asm.CMP || !ok {
		return
	}
	what, ok := e.only(w.regs[n])
	if imm, constant := in.Args[1].(x86asm.Imm); ok && constant && what.kind == argument && imm > 0 {
		w.compared = uint64(imm)
	}
}

// forget forgets what an instruction changes: all, where that isn't known.
func (e *evaluator) forget(w *way, in x86Inst) {
	effect, known := effectOf(in)
	for n := range w.regs {
		if !known || effect.writes&(1<<n) != 0 {
			w.regs[n] = e.fresh()
		}
	}
}

// result is the value that an instruction puts into register to; to is negative
// where it can't be told.
func (e *evaluator) result(w *way, in x86Inst) (value formula, to int) {
	to, ok := register(in.Args[0])
	if !ok || !wide(in.Args[0]) || in.repeatedOrLocked() {
		return formula{}, -1
	}
	switch in.Op {
	case x86asm.MOV, x86asm.MOVZX:
		value, ok = e.operand(w, in, in.Args[1])
	case x86asm.LEA:
		mem, _ := in.Args[1].(x86asm.Mem)
		value, ok = e.address(w, in, mem), mem.Segment == 0
	case x86asm.ADD:
		value, ok = e.operand(w, in, in.Args[1])
		if ok {
			value, ok = value.add(w.regs[to])
		}
	case x86asm.SHL, x86asm.SHR:
		value, ok = e.shift(w.regs[to], in)
	case x86asm.XOR:
		ok = in.Args[0] == in.Args[1]
	default:
		ok = false
	}
	if !ok {
		return formula{}, -1
	}
	return value, to
}

// operand is the value of a source operand.
func (e *evaluator) operand(w *way, in x86Inst, arg x86asm.Arg) (formula, bool) {
	switch from := arg.(type) {
	case x86asm.Imm:
		return formula{plus: int64(from)}, true
	case x86asm.Reg:
		n, ok := register(from)
		return w.regs[n], ok && (wide(from) || low(from) && e.isByte(w.regs[n]))
	case x86asm.Mem:
		at := e.address(w, in, from)
		if what, ok := e.only(at); ok && what.kind == thread {
			return at, true // its first word is its own address
		}
		if at.terms[0].atom == 0 && e.im.tlsSlots[uint64(at.plus)] {
			return e.formula(atom{kind: variable, of: at}), true
		}
		return e.formula(atom{kind: load, n: in.MemBytes, of: at}), true
	}
	return formula{}, false
}

// isByte says whether a value is a byte that was loaded: the lowest one of its register is all of it.
func (e *evaluator) isByte(f formula) bool {
	what, ok := e.only(f)
	return ok && what.kind == load && what.n == 1
}

// shift is a register's value after a shift by a constant.
func (e *evaluator) shift(f formula, in x86Inst) (formula, bool) {
	bits, ok := in.Args[1].(x86asm.Imm)
	switch {
	case !ok || bits < 1 || bits > 31:
		return formula{}, false
	case in.Op == x86asm.SHL:
		return f.times(1 << bits), true
	}
	return e.formula(atom{kind: shifted, n: int(bits), of: f}), true
}

// address is that of a memory operand; an unknown one where it can't be told.
func (e *evaluator) address(w *way, in x86Inst, mem x86asm.Mem) formula {
	if at, relative := in.relative(mem); relative && mem.Segment == 0 {
		return formula{plus: int64(at)}
	}
	sum, ok := formula{plus: int64(int32(mem.Disp))}, true
	if mem.Segment == x86asm.FS {
		sum, ok = sum.add(e.formula(atom{kind: thread}))
	}
	if n, based := register(mem.Base); ok && based {
		sum, ok = sum.add(w.regs[n])
	}
	if n, indexed := register(mem.Index); ok && indexed {
		sum, ok = sum.add(w.regs[n].times(int64(mem.Scale)))
	}
	if !ok || mem.Base == x86asm.RIP || mem.Segment != 0 && mem.Segment != x86asm.FS {
		return e.fresh()
	}
	return sum
}
