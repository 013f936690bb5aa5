package unwind

import "testing"

// Behind the instruction that loads the stack pointer from memory Go's code is on another stack.
func TestSwitchedAt(t *testing.T) {
	for name, c := range map[string]struct {
		code []byte
		want uint64
	}{
		"asmcgocall of Go 1.26": {[]byte{
			0x55,             // push %rbp
			0x48, 0x89, 0xe5, // mov %rsp,%rbp
			0x48, 0x8b, 0x44, 0x24, 0x10, // mov 0x10(%rsp),%rax
			0x48, 0x89, 0xe2, // mov %rsp,%rdx
			0x48, 0x8b, 0x66, 0x38, // mov 0x38(%rsi),%rsp
			0x48, 0x83, 0xec, 0x10, // sub $0x10,%rsp
			0x48, 0x89, 0xf4, // mov %rsi,%rsp
			0xc3,
		}, 0x1010},
		"none": {[]byte{0x48, 0x89, 0xf4, 0x5d, 0xc3}, 0}, // mov %rsi,%rsp; pop %rbp; ret
	} {
		if got := switchedAt(c.code, 0x1000); got != c.want {
			t.Errorf("%s: %#x, want %#x", name, got, c.want)
		}
	}
}
