//go:build linux && !viewer

package goheap

import "golang.org/x/arch/x86/x86asm"

// readsAMD64 lists the addresses relative to the instruction pointer that code reads that many bytes from.
func readsAMD64(code []byte, at uint64, size int) (out []uint64) {
	for len(code) > 0 {
		inst, err := x86asm.Decode(code, 64)
		if err != nil || inst.Len == 0 {
			return out
		}
		if m, ok := inst.Args[1].(x86asm.Mem); ok && inst.Op == x86asm.MOV && m.Base == x86asm.RIP && inst.MemBytes == size {
			out = append(out, at+uint64(inst.Len)+uint64(m.Disp))
		}
		code, at = code[inst.Len:], at+uint64(inst.Len)
	}
	return out
}
