package unwind

import (
	"debug/elf"

	"golang.org/x/arch/x86/x86asm"

	"github.com/memtrace/memtrace/tracer/debugfile"
)

// musl comes without call frame information, its start-up code included: every
// stack would break off in main's caller,
//
//	_start_c -> (jump) __libc_start_main -> (jump) libc_start_main_stage2 -> main
//
// whose row is therefore made from its code: pushes, room on the stack, and an
// indirect call, that of main.

// muslStart is the row of libc_start_main_stage2.
type muslStart struct {
	from, to uint64 // from the end of its prologue until after the call of main
	rule     Rule
}

const maxStartCode = 256 // bytes of either function

// findMuslStart finds the row; its address is 0 where there is none.
func findMuslStart(e *elf.File) muslStart {
	at := symbolAddress(e, "__libc_start_main")
	if at == 0 {
		return muslStart{}
	}
	to := jumpsTo(loaded(e, at, maxStartCode), at)
	if to == 0 {
		return muslStart{}
	}
	return prologueRow(loaded(e, to, maxStartCode), to)
}

func symbolAddress(e *elf.File, name string) uint64 {
	for _, s := range debugfile.FindSymbols(e, name) {
		if s.Section != elf.SHN_UNDEF && s.Value != 0 {
			return s.Value
		}
	}
	return 0
}

// instructions yields those of code until yield returns false.
func instructions(code []byte, at uint64, yield func(in x86asm.Inst, next uint64) bool) {
	for len(code) > 0 {
		in, err := x86asm.Decode(code, 64)
		if err != nil {
			return
		}
		code, at = code[in.Len:], at+uint64(in.Len)
		if !yield(in, at) {
			return
		}
	}
}

// jumpsTo returns the address that a function loads into a register and ends by jumping to.
func jumpsTo(code []byte, at uint64) uint64 {
	loads := make(map[x86asm.Reg]uint64)
	target := uint64(0)
	instructions(code, at, func(in x86asm.Inst, next uint64) bool {
		reg, isReg := in.Args[0].(x86asm.Reg)
		switch in.Op {
		case x86asm.LEA:
			if m, ok := in.Args[1].(x86asm.Mem); ok && m.Base == x86asm.RIP {
				loads[reg] = next + uint64(int64(int32(m.Disp)))
			}
		case x86asm.JMP:
			if isReg {
				target = loads[reg]
			}
			return false
		case x86asm.RET:
			return false
		}
		return true
	})
	return target
}

var pushed = map[x86asm.Reg]int{
	x86asm.RBP: 0, x86asm.RBX: 1, x86asm.R12: 2, x86asm.R13: 3, x86asm.R14: 4, x86asm.R15: 5,
}

// prologueRow makes the row that holds at a function's first indirect call.
func prologueRow(code []byte, at uint64) muslStart {
	out := muslStart{rule: Rule{Kind: SP, CFA: 8}}
	found, from := false, at
	instructions(code, at, func(in x86asm.Inst, next uint64) bool {
		reg, isReg := in.Args[0].(x86asm.Reg)
		switch in.Op {
		case x86asm.PUSH:
			i, ok := pushed[reg]
			if !isReg || !ok {
				return false
			}
			out.rule.CFA += 8
			out.rule.Saved[i] = int16(-out.rule.CFA / 8)
			from = next
		case x86asm.SUB:
			room, ok := in.Args[1].(x86asm.Imm)
			if reg == x86asm.RSP {
				if !ok || room < 0 || room > 4096 {
					return false
				}
				out.rule.CFA += int32(room)
				from = next
			}
		case x86asm.POP, x86asm.RET, x86asm.JMP, x86asm.LEAVE, x86asm.ADD:
			return false
		case x86asm.CALL:
			if found = isReg; found {
				out.from, out.to = from, next+1
				return false
			}
		}
		return true
	})
	if !found {
		return muslStart{}
	}
	return out
}

// addMuslStart adds the row, where there is none.
func (r *rows) addMuslStart(m muslStart) {
	if covered(r.sorted(), m.from) {
		return
	}
	r.whole(m.from, m.to, m.rule)
}
