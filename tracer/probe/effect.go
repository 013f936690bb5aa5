package probe

import "golang.org/x/arch/x86/x86asm"

const (
	encRAX = 0
	encRDX = 2
	encRSP = 4
	encRDI = 7
)

// effect is what a straight-line instruction does to the state that the
// placement rule follows.
type effect struct {
	writes   uint16 // bit n: general register n, as encoded, is changed
	copyTo   int    // with copyFrom: a whole register is copied
	copyFrom int    // -1: no copy
	grows    uint32 // bytes by which the stack grows
}

// readOnly are instructions that change no general register and no memory.
var readOnly = opSet(
	x86asm.CMP, x86asm.TEST, x86asm.NOP, x86asm.BT, x86asm.PREFETCHT0, x86asm.PREFETCHT1, x86asm.PREFETCHT2,
	x86asm.PREFETCHNTA, x86asm.PREFETCHW, x86asm.UCOMISS, x86asm.UCOMISD, x86asm.COMISS, x86asm.COMISD, x86asm.PTEST,
)

// writesFirst are instructions that change their first operand alone.
var writesFirst = opSet(
	x86asm.MOV, x86asm.LEA, x86asm.ADD, x86asm.SUB, x86asm.AND, x86asm.OR, x86asm.XOR, x86asm.ADC, x86asm.SBB,
	x86asm.SHL, x86asm.SHR, x86asm.SAR, x86asm.ROL, x86asm.ROR, x86asm.NEG, x86asm.NOT, x86asm.INC, x86asm.DEC,
	x86asm.MOVZX, x86asm.MOVSX, x86asm.MOVSXD, x86asm.BSF, x86asm.BSR, x86asm.LZCNT, x86asm.TZCNT, x86asm.POPCNT,
	x86asm.BSWAP, x86asm.BTS, x86asm.BTR, x86asm.BTC, x86asm.SHLD, x86asm.SHRD, x86asm.SETA, x86asm.SETAE, x86asm.SETB,
	x86asm.SETBE, x86asm.SETE, x86asm.SETG, x86asm.SETGE, x86asm.SETL, x86asm.SETLE, x86asm.SETNE, x86asm.SETNO,
	x86asm.SETNP, x86asm.SETNS, x86asm.SETO, x86asm.SETP, x86asm.SETS, x86asm.CMOVA, x86asm.CMOVAE, x86asm.CMOVB,
	x86asm.CMOVBE, x86asm.CMOVE, x86asm.CMOVG, x86asm.CMOVGE, x86asm.CMOVL, x86asm.CMOVLE, x86asm.CMOVNE, x86asm.CMOVNO,
	x86asm.CMOVNP, x86asm.CMOVNS, x86asm.CMOVO, x86asm.CMOVP, x86asm.CMOVS, x86asm.MOVD, x86asm.MOVQ, x86asm.MOVAPS,
	x86asm.MOVUPS, x86asm.MOVAPD, x86asm.MOVUPD, x86asm.MOVDQA, x86asm.MOVDQU, x86asm.MOVSS, x86asm.MOVSD_XMM,
	x86asm.PXOR, x86asm.XORPS, x86asm.XORPD, x86asm.PUNPCKLQDQ, x86asm.MOVHPS, x86asm.MOVLPS, x86asm.PINSRQ,
)

func opSet(ops ...x86asm.Op) map[x86asm.Op]bool {
	set := make(map[x86asm.Op]bool, len(ops))
	for _, op := range ops {
		set[op] = true
	}
	return set
}

// effectOf returns what an instruction that is no control transfer does. It
// answers false for everything it does not know for certain, and for stores
// that other threads could see: past one of those, a release may already
// have happened.
func effectOf(in x86Inst) (effect, bool) {
	none := effect{copyFrom: -1}
	if in.repeatedOrLocked() {
		return none, false
	}
	switch {
	case readOnly[in.Op]:
		return none, true
	case in.Op == x86asm.PUSH:
		return effect{copyFrom: -1, grows: 8}, true
	case in.Op == x86asm.CQO, in.Op == x86asm.CDQ:
		return effect{copyFrom: -1, writes: 1 << encRDX}, true
	case in.Op == x86asm.CDQE, in.Op == x86asm.CWDE:
		return effect{copyFrom: -1, writes: 1 << encRAX}, true
	case in.Op == x86asm.MUL, in.Op == x86asm.IMUL && in.Args[1] == nil:
		return effect{copyFrom: -1, writes: 1<<encRAX | 1<<encRDX}, true
	case in.Op == x86asm.XCHG:
		return exchange(in)
	case writesFirst[in.Op], in.Op == x86asm.IMUL:
		return writeFirst(in)
	}
	return none, false
}

// stores says whether the instruction writes to memory and to no register.
func (in x86Inst) stores() bool {
	_, memory := in.Args[0].(x86asm.Mem)
	return memory && writesFirst[in.Op]
}

// repeatedOrLocked says whether a prefix changes what the instruction does,
// rather than being a part of its opcode.
func (in x86Inst) repeatedOrLocked() bool {
	for _, p := range in.Prefix {
		switch p &^ x86asm.PrefixInvalid {
		case x86asm.PrefixLOCK, x86asm.PrefixREP, x86asm.PrefixREPN, x86asm.PrefixXACQUIRE, x86asm.PrefixXRELEASE:
			return true
		}
	}
	return false
}

func exchange(in x86Inst) (effect, bool) {
	a, okA := register(in.Args[0])
	b, okB := register(in.Args[1])
	ok := okA && okB && a != encRSP && b != encRSP
	return effect{copyFrom: -1, writes: 1<<a | 1<<b}, ok
}

// writeFirst is the effect of an instruction that changes its first operand.
func writeFirst(in x86Inst) (effect, bool) {
	e := effect{copyFrom: -1}
	switch dst := in.Args[0].(type) {
	case x86asm.Mem:
		return e, dst.Base == x86asm.RSP && dst.Index == 0 && dst.Segment == 0
	case x86asm.Reg:
		n, general := register(dst)
		if !general {
			return e, dst >= x86asm.M0 && dst <= x86asm.X15
		}
		if n == encRSP {
			return growStack(in)
		}
		e.writes = 1 << n
		if from, ok := register(in.Args[1]); ok && in.Op == x86asm.MOV && full(dst) && full(in.Args[1]) {
			e.copyTo, e.copyFrom = n, from
		}
		return e, true
	}
	return e, false
}

// growStack is the effect of sub $n,%rsp and add $-n,%rsp; other changes of
// the stack pointer are not followed.
func growStack(in x86Inst) (effect, bool) {
	imm, ok := in.Args[1].(x86asm.Imm)
	if in.Op == x86asm.ADD {
		imm = -imm
	} else if in.Op != x86asm.SUB {
		ok = false
	}
	if !ok || imm < 0 || imm > 1<<20 || !full(in.Args[0]) {
		return effect{copyFrom: -1}, false
	}
	return effect{copyFrom: -1, grows: uint32(imm)}, true
}
