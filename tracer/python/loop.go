package python

import (
	"debug/elf"
	"encoding/binary"
	"io"
	"slices"

	"golang.org/x/arch/x86/x86asm"
)

// Bounds of what is read to find the evaluation loop.
const (
	maxLoop   = 1 << 20 // bytes of code
	maxHeader = 16 << 20
	maxParts  = 8
)

// loopSpans returns the addresses of the evaluation loop: its function, and the parts of that which the compiler has put
// elsewhere, to which it jumps (GCC's .cold). A part is what has call frame information of its own.
func loopSpans(r io.ReaderAt, f *elf.File, whole span) []span {
	out := []span{whole}
	code := make([]byte, whole.to-whole.from)
	starts := functionStarts(f)
	if !readAddress(r, f, whole.from, code) || len(starts) == 0 {
		return out
	}
	for _, target := range jumpsOut(code, whole) {
		i, exact := slices.BinarySearch(starts, target)
		if !exact {
			i--
		}
		if i < 0 || i+1 >= len(starts) || len(out) > maxParts {
			continue
		}
		part := span{starts[i], starts[i+1]}
		// A jump to where a function begins is a call of another one in its place.
		if exact || slices.Contains(out, part) || part.to-part.from > maxLoop {
			continue
		}
		out = append(out, part)
	}
	return out
}

// jumpsOut returns where the code of a span jumps to outside of it.
func jumpsOut(code []byte, at span) (out []uint64) {
	seen := make(map[uint64]bool)
	for pc := at.from; pc < at.to; {
		in, err := x86asm.Decode(code[pc-at.from:], 64)
		if err != nil || in.Len == 0 {
			pc++
			continue
		}
		pc += uint64(in.Len)
		rel, ok := in.Args[0].(x86asm.Rel)
		target := pc + uint64(int64(rel))
		if !ok || in.Op == x86asm.CALL || target >= at.from && target < at.to || seen[target] {
			continue
		}
		seen[target] = true
		out = append(out, target)
	}
	return out
}

// functionStarts reads the sorted table of .eh_frame_hdr: where what has call frame information begins (Linux Standard
// Base, "Exception Frame Header"). nil: there is none, or it is encoded as no linker does.
func functionStarts(f *elf.File) []uint64 {
	const encodings = 0x3b031b01 // version 1; a relative pointer, a count of 4 bytes, a table relative to the section
	s := f.Section(".eh_frame_hdr")
	if s == nil || s.Type == elf.SHT_NOBITS || s.FileSize > maxHeader {
		return nil
	}
	data, err := s.Data()
	if err != nil || len(data) < 12 || binary.LittleEndian.Uint32(data) != encodings {
		return nil
	}
	table := data[12:]
	count := min(int(binary.LittleEndian.Uint32(data[8:])), len(table)/8)
	out := make([]uint64, count)
	for i := range out {
		out[i] = s.Addr + uint64(int64(int32(binary.LittleEndian.Uint32(table[8*i:]))))
	}
	slices.Sort(out)
	return out
}
