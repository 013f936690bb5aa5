//go:build linux && !viewer

package goheap

import (
	"debug/elf"
	"fmt"
)

// maxCode is how much of a function is read, in bytes; those that are looked at have a few hundred.
const maxCode = 8 << 10

// read1 finds the one variable of a size and in a range of addresses that a function's code reads.
func (p *program) read1(code [2]uint64, in [2]uint64, size int, name string) (uint64, error) {
	offset, ok := p.offset(code[0])
	if code[0] == 0 || !ok || code[1] <= code[0] {
		return 0, fmt.Errorf("%w: it has no symbols, and no function %s", ErrNotFound, name)
	}
	body := make([]byte, min(code[1]-code[0], maxCode))
	if !p.file.read(body, offset) {
		return 0, fmt.Errorf("%w: the code of %s could not be read", ErrNotFound, name)
	}
	var reads func([]byte, uint64, int) []uint64
	switch p.elf.Machine {
	case elf.EM_X86_64:
		reads = readsAMD64
	case elf.EM_AARCH64:
		reads = readsARM64
	default:
		return 0, fmt.Errorf("%w: it has no symbols, and the code of %v is not known", ErrNotFound, p.elf.Machine)
	}
	var found uint64
	for _, addr := range reads(body, code[0], size) {
		switch {
		case addr < in[0] || addr >= in[1] || addr == found:
		case found != 0:
			return 0, fmt.Errorf("%w: it has no symbols, and %s reads more than one variable", ErrNotFound, name)
		default:
			found = addr
		}
	}
	if found == 0 {
		return 0, fmt.Errorf("%w: it has no symbols, and %s reads no variable", ErrNotFound, name)
	}
	return found, nil
}
