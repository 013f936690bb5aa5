package probe

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"golang.org/x/arch/x86/x86asm"

	"github.com/memtrace/memtrace/tracer/debugfile"
)

// defaultSuppressions is the function by which a program tells LeakSanitizer
// which of its leaks are known:
//
//	const char *__lsan_default_suppressions(void);
const defaultSuppressions = "__lsan_default_suppressions"

// ErrNotConstant means that a function does more than to return the address of a text.
var ErrNotConstant = errors.New("it does more than to return a constant text, and nobody calls it")

// maxEmbedded bounds suppressions, in bytes.
const maxEmbedded = 1 << 20

// EmbeddedSuppressions returns the text of LeakSanitizer's suppressions that a
// program has built in; none where it has no such function. The function is not
// called: nearly all are `return "…";`, and what address they return stands in
// their code. The error is ErrNotConstant where one is something else.
func EmbeddedSuppressions(file io.ReaderAt) (string, error) {
	f, err := debugfile.ReadELF(file)
	if err != nil {
		return "", fmt.Errorf("look for %s: %w", defaultSuppressions, err)
	}
	at, ok := findFunction(f, defaultSuppressions)
	if !ok {
		return "", nil
	}
	var code [64]byte
	n := readAddress(f, at, code[:])
	text, err := uint64(0), ErrNotConstant
	switch f.Machine {
	case elf.EM_X86_64:
		text, err = returnedX86(code[:n], at)
	case elf.EM_AARCH64:
		text, err = returnedARM(code[:n], at)
	}
	if err != nil || text == 0 {
		return "", err
	}
	out := make([]byte, maxEmbedded)
	out = out[:readAddress(f, text, out)]
	end := bytes.IndexByte(out, 0)
	if end < 0 {
		return "", ErrNotConstant
	}
	return string(out[:end]), nil
}

// notHonoured are what else programs tell LeakSanitizer by.
var notHonoured = []string{"__lsan_is_turned_off", "__lsan_ignore_object", "__lsan_disable", "__lsan_register_root_region"}

// NotHonoured lists the functions of LeakSanitizer that a program has or calls
// and that say something of its leaks which cannot be known from outside.
func NotHonoured(file io.ReaderAt) (names []string) {
	f, err := debugfile.ReadELF(file)
	if err != nil {
		return nil
	}
	found := debugfile.FindSymbols(f, notHonoured...)
	for _, name := range notHonoured {
		if slices.ContainsFunc(found, func(s elf.Symbol) bool { return s.Name == name }) {
			names = append(names, name)
		}
	}
	return names
}

// findFunction returns where a function is.
func findFunction(f *elf.File, name string) (uint64, bool) {
	for _, s := range debugfile.FindSymbols(f, name) {
		if s.Section != elf.SHN_UNDEF && elf.ST_TYPE(s.Info) == elf.STT_FUNC {
			return s.Value, true
		}
	}
	return 0, false
}

// readAddress reads what a file maps at an address, as far as it goes.
func readAddress(f *elf.File, at uint64, into []byte) int {
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && at >= p.Vaddr && at-p.Vaddr < p.Filesz {
			n, _ := p.ReadAt(into[:min(uint64(len(into)), p.Filesz-(at-p.Vaddr))], int64(at-p.Vaddr))
			return n
		}
	}
	return 0
}

// returnedX86 returns the constant that a function returns, and whose code is at an address.
func returnedX86(code []byte, at uint64) (value uint64, err error) {
	endbr := []byte{0xf3, 0x0f, 0x1e, 0xfa}
	known := false
	for len(code) > 0 {
		if rest, ok := bytes.CutPrefix(code, endbr); ok {
			code, at = rest, at+4
			continue
		}
		in, err := x86asm.Decode(code, 64)
		if err != nil {
			return 0, ErrNotConstant
		}
		code, at = code[in.Len:], at+uint64(in.Len)
		switch dst, src := in.Args[0], in.Args[1]; {
		case in.Op == x86asm.RET && known:
			return value, nil
		case in.Op == x86asm.LEA && dst == x86asm.RAX:
			m, ok := src.(x86asm.Mem)
			if !ok || m.Base != x86asm.RIP || m.Index != 0 {
				return 0, ErrNotConstant
			}
			value, known = at+uint64(m.Disp), true
		case in.Op == x86asm.MOV && (dst == x86asm.EAX || dst == x86asm.RAX):
			imm, ok := src.(x86asm.Imm)
			if !ok {
				return 0, ErrNotConstant
			}
			value, known = uint64(imm), true
		case in.Op == x86asm.XOR && dst == x86asm.EAX && src == x86asm.EAX:
			value, known = 0, true
		case in.Op == x86asm.NOP, in.Op == x86asm.LEAVE, (in.Op == x86asm.PUSH || in.Op == x86asm.POP) && dst == x86asm.RBP,
			in.Op == x86asm.MOV && dst == x86asm.RBP && src == x86asm.RSP:
		default:
			return 0, ErrNotConstant
		}
	}
	return 0, ErrNotConstant
}

// returnedARM is returnedX86 for arm64: adrp and add, or adr, of x0.
func returnedARM(code []byte, at uint64) (value uint64, err error) {
	known := false
	for ; len(code) >= 4; code, at = code[4:], at+4 {
		in := binary.LittleEndian.Uint32(code)
		// The address that adr and adrp take: 19 bits, then two lower ones.
		imm := int64(int32(in<<8)>>13)<<2 | int64(in>>29&3)
		switch {
		case in == 0xd65f03c0 && known: // ret
			return value, nil
		case in&0x9f00001f == 0x90000000: // adrp x0
			value = at&^0xfff + uint64(imm<<12)
		case in&0x9f00001f == 0x10000000: // adr x0
			value, known = at+uint64(imm), true
		case in&0xffc003ff == 0x91000000: // add x0, x0, #imm
			value, known = value+uint64(in>>10&0xfff), true
		case in == 0xd503245f, in == 0xd503201f: // bti c, nop
		default:
			return 0, ErrNotConstant
		}
	}
	return 0, ErrNotConstant
}
