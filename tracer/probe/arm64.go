package probe

import (
	"encoding/binary"

	"golang.org/x/arch/arm64/arm64asm"
)

// placeARM64 probes the entry: the kernel steps nearly everything, and a
// return probe must sit before lr is saved.
func (im *image) placeARM64(addr uint64, fn function) (spot, bool) {
	code := im.code(addr, 4)
	if len(code) < 4 {
		return spot{}, false
	}
	s := spot{addr: addr, args: naturalArgs(fn.args), cost: Stepped, instruction: "unknown"}
	if in, err := arm64asm.Decode(code); err == nil {
		s.instruction = arm64asm.GNUSyntax(in)
	}
	if simulatedARM64(binary.LittleEndian.Uint32(code)) {
		s.cost = Emulated
	}
	return s, true
}

// simulatedARM64 says whether kernels from 5.10 on execute an instruction
// themselves: b, bl, br, blr, ret, b.cond, cbz, cbnz, tbz, tbnz, adr, adrp.
// See arch/arm64/kernel/probes/decode-insn.c.
func simulatedARM64(word uint32) bool {
	for _, c := range []struct{ mask, value uint32 }{
		{0x7c000000, 0x14000000}, // b, bl
		{0xfffffc1f, 0xd61f0000}, // br
		{0xfffffc1f, 0xd63f0000}, // blr
		{0xfffffc1f, 0xd65f0000}, // ret
		{0xff000010, 0x54000000}, // b.cond
		{0x7e000000, 0x34000000}, // cbz, cbnz
		{0x7e000000, 0x36000000}, // tbz, tbnz
		{0x1f000000, 0x10000000}, // adr, adrp
	} {
		if word&c.mask == c.value {
			return true
		}
	}
	return false
}

// branchARM64 returns the target of an unconditional b, past a leading bti.
func (im *image) branchARM64(addr uint64) (uint64, bool) {
	code := im.code(addr, 8)
	if len(code) >= 8 && binary.LittleEndian.Uint32(code)&0xffffff3f == 0xd503241f { // bti
		code, addr = code[4:], addr+4
	}
	if len(code) < 4 {
		return 0, false
	}
	word := binary.LittleEndian.Uint32(code)
	if word&0xfc000000 != 0x14000000 {
		return 0, false
	}
	return addr + uint64(int64(int32(word<<6)>>4)), true
}

// stubARM64 returns the address of the word that a PLT stub jumps through: adrp x16; ldr x17, [x16, #n]; add; br x17.
func (im *image) stubARM64(addr uint64) (uint64, bool) {
	code := im.code(addr, 16)
	if len(code) >= 4 && binary.LittleEndian.Uint32(code)&0xffffff3f == 0xd503241f { // bti
		code, addr = code[4:], addr+4
	}
	if len(code) < 8 {
		return 0, false
	}
	adrp, ldr := binary.LittleEndian.Uint32(code), binary.LittleEndian.Uint32(code[4:])
	if adrp&0x9f00001f != 0x90000010 || ldr&0xffc003ff != 0xf9400211 {
		return 0, false
	}
	page := int64(int32(adrp<<8)>>13)<<2 | int64(adrp>>29&3)
	return addr&^0xfff + uint64(page<<12) + uint64(ldr>>10&0xfff)*8, true
}

// stepsARM64 are the instructions of a function, as the search for its returns sees them. Data among them does no
// harm: only what the code leads to is looked at.
func (im *image) stepsARM64(extent span) (map[uint64]step, bool) {
	code := im.code(extent.lo, int(extent.hi-extent.lo))
	if uint64(len(code)) < extent.hi-extent.lo || len(code)%4 != 0 {
		return nil, false
	}
	out := make(map[uint64]step, len(code)/4)
	for at := extent.lo; len(code) > 0; code, at = code[4:], at+4 {
		out[at] = stepARM64(binary.LittleEndian.Uint32(code), at)
	}
	return out, true
}

func stepARM64(word uint32, at uint64) step {
	s := step{size: 4}
	relative := func(bits, shift int) { // a signed number of words
		s.target = at + uint64(int64(int32(word<<(32-bits-shift)))>>(32-bits)*4)
	}
	switch {
	case word&0xfffffc1f == 0xd65f0000, word == 0xd65f0bff, word == 0xd65f0fff: // ret, retaa, retab
		s.returns = true
	case word&0xfe000000 == 0xd6000000 && word>>21&15 != 1 && word>>21&15 != 9: // br, braa, …; eret and drps
		s.ends, s.pointer = true, true
	case word&0xfe000000 == 0xd6000000, word&0xfc000000 == 0x94000000: // blr, blraa, …; bl
		s.calls = true
	case word&0xfc000000 == 0x14000000: // b
		s.ends = true
		relative(26, 0)
	case word&0xff000000 == 0x54000000, word&0x7e000000 == 0x34000000: // b.cond, cbz, cbnz
		relative(19, 5)
	case word&0x7e000000 == 0x36000000: // tbz, tbnz
		relative(14, 5)
	case word&0xffe0001f == 0xd4200000, word>>16 == 0: // brk, udf
		s.ends = true
	}
	s.saves = savesARM64(word)
	return s
}

// savesARM64 says how an instruction stores x30 on the stack; a frame record is x29 beside it.
func savesARM64(word uint32) saved {
	const sp, fp, lr = 31, 29, 30
	first, base, second := word&31, word>>5&31, word>>10&31
	pair := word&0xfe400000 == 0xa8000000 // stp of 64 bits, with any way of addressing
	one := word&0xffc00000 == 0xf9000000 || word&0xffe00000 == 0xf8000000
	switch {
	case base != sp:
		return unsaved
	case pair && first == fp && second == lr:
		return inRecord
	case pair && (first == lr || second == lr), one && first == lr:
		return elsewhere
	}
	return unsaved
}
