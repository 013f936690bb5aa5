package unwind

import (
	"debug/elf"

	"golang.org/x/arch/x86/x86asm"

	"github.com/memtrace/memtrace/tracer/debugfile"
)

// Go's runtime calls C on the thread's own stack, as goroutines' are small. Its call frame
// information knows nothing of that: by it the caller would lie on the stack that was
// changed to. The frame pointer still leads to the goroutine's.
//
//	asmcgocall: push %rbp; mov %rsp,%rbp; …; mov 0x38(%rsi),%rsp; …; call
//
// Before Go 1.21 it had no frame of its own, and the caller's is passed over.

// switchers are the functions that do so; functions for assembly have a suffix where the
// compiler's own convention has another one of the name.
var switchers = []string{
	"runtime.asmcgocall", "runtime.asmcgocall.abi0", "runtime.systemstack", "runtime.systemstack.abi0",
}

const maxSwitcher = 1024 // bytes of such a function

// findSwitches finds the code of Go's runtime that runs on another stack than its caller.
func findSwitches(e *elf.File) (out []Range) {
	if e.Section(".gopclntab") == nil && e.Section(".go.buildinfo") == nil {
		return nil
	}
	// Where it is stripped there is no .debug_frame either, and frame pointers are followed.
	for _, s := range debugfile.FindSymbols(e, switchers...) {
		if s.Section == elf.SHN_UNDEF || s.Size == 0 || s.Size > maxSwitcher {
			continue
		}
		if from := switchedAt(loaded(e, s.Value, s.Size), s.Value); from != 0 {
			out = append(out, Range{from, s.Value + s.Size})
		}
	}
	return out
}

// switchedAt is the address behind the instruction that loads the stack pointer from
// memory; 0 where there is none.
func switchedAt(code []byte, at uint64) (after uint64) {
	instructions(code, at, func(in x86asm.Inst, next uint64) bool {
		if _, memory := in.Args[1].(x86asm.Mem); in.Op == x86asm.MOV && in.Args[0] == x86asm.RSP && memory {
			after = next
		}
		return after == 0
	})
	return after
}

// addSwitches gives such code its rows, in place of those that the file has.
func (r *rows) addSwitches(switches []Range) {
	for _, s := range switches {
		if !r.inCode(s.Start, s.End) {
			continue
		}
		r.whole(s.Start, s.End, Rule{Kind: Switch})
	}
}
