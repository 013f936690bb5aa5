package unwind

import (
	"debug/elf"
	"testing"
)

// A return address above the CFA, as the lazy resolver of glibc 2.36 on arm64 has it by readelf: sp+208, ra c+8. The
// stub in the linkage table that jumps to it has pushed it with x16: "stp x16, x30, [sp, #-16]!".
func TestReturnAddressAboveTheCFA(t *testing.T) {
	m := machines[elf.EM_AARCH64]
	for _, c := range []struct {
		name string
		s    state
		want string
	}{
		{"the resolver", state{cfaReg: 31, cfaOffset: 208, ra: place{kind: fromCFA, offset: 8}}, "sp+224 s1=c-8"},
		{"with a frame pointer", state{cfaReg: 29, cfaOffset: 16, ra: place{kind: fromCFA, offset: 16},
			saved: [SavedRegisters]place{{kind: fromCFA, offset: -16}}}, "fp+48 s0=c-48 s1=c-16"},
		{"an ordinary frame", state{cfaReg: 31, cfaOffset: 48, ra: place{kind: fromCFA, offset: -40}}, "sp+48 s1=c-40"},
		{"another register where the CFA turns out to be", state{cfaReg: 31, cfaOffset: 16, ra: place{kind: fromCFA, offset: 8},
			saved: [SavedRegisters]place{2: {kind: fromCFA, offset: 16}}}, "none"},
		{"far up", state{cfaReg: 31, cfaOffset: 1<<31 - 8, ra: place{kind: fromCFA, offset: 8}}, "none"},
	} {
		if got := c.s.rule(m, false).String(); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
