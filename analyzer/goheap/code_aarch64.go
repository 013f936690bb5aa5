//go:build linux && !viewer

package goheap

import "encoding/binary"

// readsARM64 lists the addresses that code reads that many bytes from: an ADRP gives the page, an ADD or the load itself the
// place in it, and the load is an LDR or, of atomic variables, an LDAR (Arm ARM, C6.2).
func readsARM64(code []byte, at uint64, size int) (out []uint64) {
	var regs [32]uint64 // addresses that they hold; 0: not known
	big := uint32(0)
	if size == 8 {
		big = 1
	}
	for ; len(code) >= 4; code, at = code[4:], at+4 {
		w := binary.LittleEndian.Uint32(code)
		to, from := w&31, w>>5&31
		switch {
		case w&0x9f000000 == 0x90000000: // ADRP
			pages := int64(int32(w<<8)>>13)<<2 | int64(w>>29&3)
			regs[to] = at&^0xfff + uint64(pages<<12)
		case w&0xffc00000 == 0x91000000 && regs[from] != 0: // ADD, immediate
			regs[to] = regs[from] + uint64(w>>10&0xfff)
		case w&0xbfc00000 == 0xb9400000 && w>>30&1 == big: // LDR, unsigned offset
			if regs[from] != 0 {
				out = append(out, regs[from]+uint64(w>>10&0xfff)*uint64(size))
			}
			regs[to] = 0
		case w&0xbffffc00 == 0x88dffc00 && w>>30&1 == big: // LDAR
			if regs[from] != 0 {
				out = append(out, regs[from])
			}
			regs[to] = 0
		}
	}
	return out
}
