package probe

import (
	"bytes"
	"errors"

	"golang.org/x/arch/x86/x86asm"
)

// x86Inst is a decoded amd64 instruction at a known address.
type x86Inst struct {
	x86asm.Inst
	addr    uint64
	raw     []byte
	endbr64 bool // x86asm does not know it
}

var endbr64 = []byte{0xf3, 0x0f, 0x1e, 0xfa}

// errDecode: bytes that are no instruction x86asm knows.
var errDecode = errors.New("unknown instruction")

// decodeX86 decodes the first instruction of code.
func decodeX86(code []byte, addr uint64) (x86Inst, error) {
	if bytes.HasPrefix(code, endbr64) {
		in := x86asm.Inst{Op: x86asm.NOP, Len: len(endbr64), Mode: 64}
		return x86Inst{Inst: in, addr: addr, raw: code[:len(endbr64)], endbr64: true}, nil
	}
	in, err := x86asm.Decode(code, 64)
	if err != nil || in.Len <= 0 || in.Len > len(code) {
		return x86Inst{}, errDecode
	}
	return x86Inst{Inst: in, addr: addr, raw: code[:in.Len]}, nil
}

// next is the address of the instruction that follows.
func (in x86Inst) next() uint64 {
	return in.addr + uint64(in.Len)
}

// String disassembles in the syntax of objdump.
func (in x86Inst) String() string {
	if in.endbr64 {
		return "endbr64"
	}
	return x86asm.GNUSyntax(in.Inst, in.addr, nil)
}

// emulated says whether every kernel from 5.10 on executes the instruction
// itself: nop, push of a 64-bit register, and relative jmp, jcc and call. See
// arch/x86/kernel/uprobes.c, branch_setup_xol_ops and push_setup_xol_ops.
// Prefixes are refused although the kernel takes some.
func (in x86Inst) emulated() bool {
	b := in.raw
	switch {
	case len(b) == 1:
		return b[0] == 0x90 || b[0] >= 0x50 && b[0] <= 0x57
	case len(b) == 2 && b[0] == 0x66:
		return b[1] == 0x90
	case len(b) == 2 && b[0] == 0x41:
		return b[1] >= 0x50 && b[1] <= 0x57
	case len(b) == 2:
		return b[0] == 0xeb || b[0] >= 0x70 && b[0] <= 0x7f
	case len(b) == 5:
		return b[0] == 0xe8 || b[0] == 0xe9
	case len(b) == 6:
		return b[0] == 0x0f && b[1] >= 0x80 && b[1] <= 0x8f
	}
	return false
}

// flow says how an instruction passes control on.
type flow uint8

const (
	flowNext   flow = iota // to the next instruction
	flowJump               // to a target
	flowBranch             // to a target or the next
	flowCall               // to a target, then the next
	flowEnd                // elsewhere: return, indirect jump, trap, system call
)

// flow returns where control goes, and the target where it is relative.
func (in x86Inst) flow() (flow, uint64) {
	rel, relative := in.Args[0].(x86asm.Rel)
	target := in.next() + uint64(int64(rel))
	switch in.Op {
	case x86asm.JMP:
		if relative {
			return flowJump, target
		}
		return flowEnd, 0
	case x86asm.CALL:
		if relative {
			return flowCall, target
		}
		return flowCall, 0
	case x86asm.RET, x86asm.LRET, x86asm.IRET, x86asm.IRETD, x86asm.IRETQ, x86asm.UD1, x86asm.UD2, x86asm.HLT,
		x86asm.INT, x86asm.INTO, x86asm.SYSCALL, x86asm.SYSENTER, x86asm.SYSRET, x86asm.XBEGIN:
		return flowEnd, 0
	}
	if relative { // jcc, jrcxz, loop
		return flowBranch, target
	}
	return flowNext, 0
}

// relative returns the address of an operand that is given relative to the
// instruction. x86asm leaves the 32-bit displacement unsigned.
func (in x86Inst) relative(mem x86asm.Mem) (uint64, bool) {
	return in.next() + uint64(int64(int32(mem.Disp))), mem.Base == x86asm.RIP && mem.Index == 0
}

// register returns the number (0 to 15, as the machine encodes it) of the
// general register that an operand is or is a part of.
func register(arg x86asm.Arg) (int, bool) {
	r, ok := arg.(x86asm.Reg)
	switch {
	case !ok:
		return 0, false
	case r >= x86asm.RAX && r <= x86asm.R15:
		return int(r - x86asm.RAX), true
	case r >= x86asm.EAX && r <= x86asm.R15L:
		return int(r - x86asm.EAX), true
	case r >= x86asm.AX && r <= x86asm.R15W:
		return int(r - x86asm.AX), true
	case r >= x86asm.AH && r <= x86asm.BH:
		return int(r - x86asm.AH), true
	case r >= x86asm.AL && r <= x86asm.BL:
		return int(r - x86asm.AL), true
	case r >= x86asm.SPB && r <= x86asm.R15B:
		return int(r-x86asm.SPB) + 4, true
	}
	return 0, false
}

// full says whether an operand is a whole 64-bit general register.
func full(arg x86asm.Arg) bool {
	r, ok := arg.(x86asm.Reg)
	return ok && r >= x86asm.RAX && r <= x86asm.R15
}

// low says whether an operand is the lowest byte of a general register.
func low(arg x86asm.Arg) bool {
	r, ok := arg.(x86asm.Reg)
	return ok && (r >= x86asm.AL && r <= x86asm.BL || r >= x86asm.SPB && r <= x86asm.R15B)
}

// wide says whether an operand is a general register of 64 bits, or its lower 32: a write to those clears the others.
func wide(arg x86asm.Arg) bool {
	r, ok := arg.(x86asm.Reg)
	return ok && r >= x86asm.EAX && r <= x86asm.R15
}

// steps are the instructions of a function, as the search for its returns sees them. isTable: see jumpsByTable.
func (b body) steps(isTable func(uint64) bool) map[uint64]step {
	out := make(map[uint64]step, len(b))
	for i, in := range b {
		f, target := in.flow()
		s := step{size: uint64(in.Len), calls: f == flowCall, ends: f == flowJump || f == flowEnd}
		if f == flowJump || f == flowBranch {
			s.target = target
		}
		switch in.Op {
		case x86asm.RET:
			s.returns = true
		case x86asm.SYSCALL, x86asm.INT, x86asm.INTO, x86asm.XBEGIN:
			s.ends = false
		case x86asm.JMP:
			if f != flowEnd {
				break
			}
			mem, memory := in.Args[0].(x86asm.Mem)
			if at, relative := in.relative(mem); memory && relative {
				s.word = at
			}
			s.table = s.word == 0 && b.jumpsByTable(i, isTable)
			s.pointer = !s.table
		}
		out[in.addr] = s
	}
	return out
}
