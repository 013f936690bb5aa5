package probe

import (
	"debug/elf"
	"fmt"
	"io"
	"sort"
)

// span is a piece of code, [lo, hi).
type span struct{ lo, hi uint64 }

// branchesInto returns the addresses inside the spans to which any 32-bit
// relative jump or call in the file leads. Compilers move the unlikely parts
// of a function elsewhere and let them jump back, so decoding the function
// alone is not enough. Every byte is taken for the beginning of a branch:
// what is not one gives a needless target now and then, never a missed one.
// Short jumps reach 128 bytes and stay within what a function's own decoding
// sees.
func (im *image) branchesInto(spans []span) (map[uint64]bool, error) {
	found := map[uint64]bool{}
	sort.Slice(spans, func(i, j int) bool { return spans[i].lo < spans[j].lo })
	budget := uint64(maxText)
	for _, p := range im.file.Progs {
		if p.Type != elf.PT_LOAD || p.Flags&elf.PF_X == 0 {
			continue
		}
		if p.Filesz > budget {
			return nil, fmt.Errorf("search the code for branches: segment of %d bytes: %w of %d", p.Filesz, errTooLarge, budget)
		}
		budget -= p.Filesz
		if err := scanSegment(p, spans, found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// scanSegment searches one segment in pieces that overlap by one branch.
func scanSegment(p *elf.Prog, spans []span, found map[uint64]bool) error {
	const piece, overlap = 1 << 20, 6
	buf := make([]byte, min(piece, p.Filesz))
	for off := uint64(0); off < p.Filesz; off += piece - overlap {
		n, err := p.ReadAt(buf[:min(piece, p.Filesz-off)], int64(off))
		if err != nil && err != io.EOF {
			return fmt.Errorf("search the code for branches: %w", err)
		}
		scanCode(buf[:n], p.Vaddr+off, spans, found)
		if uint64(n) < piece {
			break
		}
	}
	return nil
}

// scanCode looks for e8 and e9 (call, jmp) and 0f 80 to 0f 8f (jcc), each
// followed by a 32-bit displacement.
func scanCode(code []byte, addr uint64, spans []span, found map[uint64]bool) {
	for i := 0; i+5 <= len(code); i++ {
		at := i + 1
		switch b := code[i]; {
		case b == 0xe8 || b == 0xe9:
		case b == 0x0f && code[i+1]&0xf0 == 0x80 && i+6 <= len(code):
			at = i + 2
		default:
			continue
		}
		rel := int32(uint32(code[at]) | uint32(code[at+1])<<8 | uint32(code[at+2])<<16 | uint32(code[at+3])<<24)
		if target := addr + uint64(at) + 4 + uint64(int64(rel)); inside(target, spans) {
			found[target] = true
		}
	}
}

// inside says whether addr lies in one of the ascending spans.
func inside(addr uint64, spans []span) bool {
	if len(spans) == 0 || addr < spans[0].lo || addr >= spans[len(spans)-1].hi {
		return false
	}
	i := sort.Search(len(spans), func(i int) bool { return spans[i].hi > addr })
	return i < len(spans) && addr >= spans[i].lo
}
