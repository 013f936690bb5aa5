package probe

import "golang.org/x/arch/x86/x86asm"

// Where to probe an amd64 function (docs/probes.md tells more):
//
//	entry:  test %rdi,%rdi      stepped: 16 µs a hit
//	        je   …              emulated: 0.5 µs; every call comes past here
//	        push %rbp             exactly once, rdi is untouched: probe this
//	loop:   …                   a branch leads here: more hits than calls
//
// From the entry up to the first control transfer or branch target, each
// instruction runs exactly once per call. So any of them serves, provided
// the arguments can still be found, and, where the return is wanted as well,
// the return address still lies at the top of the stack.
//
// A release of NULL does nothing. So behind the branch that such a call takes,
// and no other one, a place serves as well, and spares those calls their trap.

// maxBody bounds how much of a function is decoded.
const maxBody = 64 << 10

// argEncodings are the machine's numbers of the registers that the first
// integer arguments are passed in.
var argEncodings = [...]int{1: 7, 2: 6, 3: 2, 4: 1, 5: 8, 6: 9}

// regByEncoding maps the machine's numbers of registers to Reg.
var regByEncoding = [16]Reg{
	RegRAX, RegRCX, RegRDX, RegRBX, RegNone, RegRBP, RegRSI, RegRDI,
	RegR8, RegR9, RegR10, RegR11, RegR12, RegR13, RegR14, RegR15,
}

// body is the decoded code of a function.
type body []x86Inst

// body decodes a function. It fails where the size is unknown or not every
// byte decodes: then nobody can tell where its branches lead.
func (im *image) body(addr, size uint64) (body, bool) {
	if size == 0 || size > maxBody {
		return nil, false
	}
	code := im.code(addr, int(size))
	if uint64(len(code)) < size {
		return nil, false
	}
	return decodeBody(code, addr)
}

func decodeBody(code []byte, addr uint64) (body, bool) {
	var out body
	for len(code) > 0 {
		in, err := decodeX86(code, addr)
		if err != nil {
			return nil, false
		}
		out = append(out, in)
		code, addr = code[in.Len:], in.next()
	}
	return out, len(out) > 0
}

// targets adds the addresses that relative branches in the function lead to.
func (b body) targets(into map[uint64]bool) {
	for _, in := range b {
		if _, target := in.flow(); target != 0 {
			into[target] = true
		}
	}
}

// straight returns the instructions from the entry up to and including the
// first control transfer that may leave for another reason than that a register
// is 0: the code in which a place is looked for.
func (b body) straight() body {
	for i, in := range b {
		if f, _ := in.flow(); f != flowNext && b.zeroBranch(i) < 0 {
			return b[:i+1]
		}
	}
	return b
}

// zeroBranch returns the number of the register that has to be 0 for the branch
// b[i] to be taken: test %r,%r; je. -1 where it is no such branch.
func (b body) zeroBranch(i int) int {
	if i == 0 || b[i].Op != x86asm.JE || b[i-1].Op != x86asm.TEST || b[i-1].Args[0] != b[i-1].Args[1] || !full(b[i-1].Args[0]) {
		return -1
	}
	n, _ := register(b[i-1].Args[0])
	return n
}

// spot is an instruction chosen for a probe.
type spot struct {
	addr        uint64
	args        [3]Reg
	grown       uint32
	cost        Cost
	instruction string
}

// maxSPDelta is the most that the stack may have grown at a probe, in bytes: the
// cookie has six bits for the words.
const maxSPDelta = 63 * 8

// place chooses the instruction at which to probe a function whose code is b.
// Targets are the addresses that branches anywhere lead to.
func (b body) place(fn function, targets map[uint64]bool) spot {
	chosen := entrySpot(b[0], fn)
	state := newTracking(fn.args)
	notNull := false // only calls with a block come here
	for i, in := range b {
		if i > 0 && targets[in.addr] {
			break
		}
		forNull := fn.shape == Free && state.holds(b.zeroBranch(i))
		if in.emulated() && state.held() && (state.grown == 0 || fn.shape.releases() && state.grown <= maxSPDelta) && !(notNull && in.pushes()) {
			chosen = spot{addr: in.addr, args: state.regs(), grown: state.grown, cost: Emulated, instruction: in.String()}
			if !forNull {
				break
			}
		}
		if f, _ := in.flow(); f != flowNext && !forNull {
			break
		}
		notNull = notNull || forNull
		e, known := effectOf(in)
		if !known && !forNull {
			break
		}
		state.apply(e)
	}
	return chosen
}

// pushes says whether the kernel has to write to the stack to emulate the
// instruction: that costs all calls more than those of NULL save.
func (in x86Inst) pushes() bool { return in.Op == x86asm.PUSH || in.Op == x86asm.CALL }

// entrySpot is the fallback: the entry itself, which is always right.
func entrySpot(first x86Inst, fn function) spot {
	s := spot{addr: first.addr, args: naturalArgs(fn.args), cost: Stepped, instruction: first.String()}
	if first.emulated() {
		s.cost = Emulated
	}
	return s
}

// naturalArgs are the registers of the calling convention: on both machines
// the value of Reg is the position of the argument.
func naturalArgs(positions [3]uint8) (regs [3]Reg) {
	for i, p := range positions {
		regs[i] = Reg(p)
	}
	return regs
}

// tracking follows the arguments through copies between registers.
type tracking struct {
	wanted  int
	natural [3]int    // machine's number of the register of each argument
	holders [3]uint16 // bit n: general register n holds the argument
	grown   uint32
}

func newTracking(positions [3]uint8) tracking {
	var t tracking
	for _, p := range positions {
		if p == 0 {
			break
		}
		t.natural[t.wanted] = argEncodings[p]
		t.holders[t.wanted] = 1 << argEncodings[p]
		t.wanted++
	}
	return t
}

func (t *tracking) apply(e effect) {
	for i := range t.holders[:t.wanted] {
		copied := e.copyFrom >= 0 && t.holders[i]&(1<<e.copyFrom) != 0
		t.holders[i] &^= e.writes
		if copied {
			t.holders[i] |= 1 << e.copyTo
		}
	}
	t.grown += e.grows
}

// held says whether every argument is in some register.
func (t *tracking) held() bool {
	for _, h := range t.holders[:t.wanted] {
		if h == 0 {
			return false
		}
	}
	return true
}

// holds says whether register n holds the first argument.
func (t *tracking) holds(n int) bool {
	return n >= 0 && t.wanted > 0 && t.holders[0]>>n&1 != 0
}

// regs names a register for each argument, its own where that still holds it.
func (t *tracking) regs() (out [3]Reg) {
	for i, h := range t.holders[:t.wanted] {
		n := t.natural[i]
		for ; h&(1<<n) == 0; n = (n + 1) % 16 {
		}
		out[i] = regByEncoding[n]
	}
	return out
}
