//go:build linux && !viewer

package reach

import (
	"math/bits"
	"unsafe"

	"github.com/memtrace/memtrace/procfs"
)

// words follows the pointers that stand in the target's memory from at to end,
// which must lie in b's window, as far as b has the pages. owner is the block
// that they are in, or noBlock.
func (w *worker) words(b *buffer, at, end uint64, owner uint32) {
	if !w.unaligned {
		at = (at + 7) &^ 7
	}
	for at < end {
		off := at - b.addr
		rest := b.pages >> (off >> pageShift)
		if rest&1 == 0 {
			at = at&^(pageBytes-1) + pageBytes
			continue
		}
		to := end
		if rest != ^uint64(0)>>(off>>pageShift) { // some page is missing
			to = min(end, at&^(pageBytes-1)+pageBytes)
		}
		if w.unaligned {
			w.anyBytes(b, at, to, owner)
		} else {
			w.aligned(b, at, to, owner)
		}
		at = to
	}
}

// aligned is the hot loop: most words are no address of the heap.
func (w *worker) aligned(b *buffer, at, end uint64, owner uint32) {
	lo, span := w.x.lo, w.x.hi-w.x.lo
	p := unsafe.Pointer(&b.data[at-b.addr])
	for n := (end - at) / 8; n > 0; n-- {
		word := *(*uint64)(p)
		if word&addrMask-lo < span {
			w.pointer(word, owner, b, p)
		}
		p = unsafe.Add(p, 8)
	}
}

// anyBytes looks for a word at each byte. An address has two zero bytes on top,
// so that it can only stand where two zero bytes do: with a and b the words at
// p and p+8, the one at p+k ends with bytes k-2 and k-1 of b (k = 1: with the
// last of a and the first of b). All those places are found at once.
func (w *worker) anyBytes(b *buffer, at, end uint64, owner uint32) {
	lo, span := w.x.lo, w.x.hi-w.x.lo
	p := unsafe.Pointer(&b.data[at-b.addr])
	for ; at+16 <= end; at += 8 {
		first, second := *(*uint64)(p), *(*uint64)(unsafe.Add(p, 8))
		if first-lo < span {
			w.pointer(first, owner, b, p)
		}
		if first|second != 0 {
			zero := zeroBytes(second)
			pairs := zero & (zero<<8 | zeroBytes(first)>>56) & 0x0080808080808080
			for ; pairs != 0; pairs &= pairs - 1 {
				q := unsafe.Add(p, bits.TrailingZeros64(pairs)>>3+1)
				if word := *(*uint64)(q); word-lo < span {
					w.pointer(word, owner, b, q)
				}
			}
		}
		p = unsafe.Add(p, 8)
	}
	for ; at+8 <= end; at++ {
		if word := *(*uint64)(p); word-lo < span {
			w.pointer(word, owner, b, p)
		}
		p = unsafe.Add(p, 1)
	}
}

// zeroBytes has 0x80 in each byte that is zero in v.
func zeroBytes(v uint64) uint64 {
	const low = 0x7f7f7f7f7f7f7f7f
	return ^(v&low + low | v | low)
}

// pointer takes a word that may point to a block.
func (w *worker) pointer(word uint64, owner uint32, b *buffer, p unsafe.Pointer) {
	if w.empty != nil {
		w.empty.after(w, word, owner, p)
	}
	addr := word & addrMask
	if w.x.near[addr>>nearShift] == 0 {
		return
	}
	t := w.x.top[(addr-w.x.base)>>regionShift]
	if t == 0 {
		return
	}
	if t&coverFlag == 0 {
		r := &w.x.regions[t].pages[addr>>pageShift%regionPages]
		if r.entry == 0 {
			return
		}
		if r.entry&coverFlag == 0 && word&7 == 0 && word == addr {
			starts := w.x.pages[r.entry][addr>>9%8]
			if starts>>(addr>>3%64)&1 != 0 {
				if i := r.number(starts, addr); i != owner && !w.seen.has(i) && (owner != noBlock || !w.inRecord(i, addr, b, p)) {
					w.found(i, addr)
				}
				return
			}
		}
	}
	if i, start, ok := w.x.find(addr); ok && i != owner && !w.seen.has(i) {
		w.inside(i, start, word, owner, b, p)
	}
}

// inside takes a pointer that is not one to a block's start as it stands:
// into the block, to its start with a tag in the lowest three bits, or with
// one in those above an address.
func (w *worker) inside(i uint32, start, word uint64, owner uint32, b *buffer, p unsafe.Pointer) {
	if owner == noBlock && (w.inLeafCache(word, b, p) || w.isNextChunk(i, start, word) && w.inAllocator(b, p)) {
		return
	}
	if !w.startOnly || word-start < 8 {
		if w.sweeping && owner == noBlock {
			w.fromRoot(i, w.kind)
			return
		}
		w.found(i, start)
		return
	}
	kind := w.stage
	if w.sweeping && owner == noBlock {
		kind = w.kind
	}
	w.note(interior{start, word - start, i, kind})
}

// isNextChunk reports whether a word may be glibc's pointer to the chunk after
// the block: a chunk's first word is lent to the block before it.
func (w *worker) isNextChunk(i uint32, start, word uint64) bool {
	return word%16 == 0 && word == (start+w.x.size(i)+7)&^15 && word-start+8 >= w.x.size(i)
}

// inAllocator reports whether p is in glibc's own records: between blocks in
// an arena, or in a struct malloc_state. That has, in front of and behind its
// pointers to chunks, bins: pairs of pointers, of which the empty ones point to
// two words before themselves (glibc, malloc/malloc.c, bin_at).
func (w *worker) inAllocator(b *buffer, p unsafe.Pointer) bool {
	const around = 1 << 10
	off := uint64(uintptr(p) - uintptr(unsafe.Pointer(b.data)))
	if v := w.s.mappingOf(b.addr + off); v != nil && (v.kind == procfs.KindHeap || v.arena) {
		return true
	}
	end := min(off+2*around, winBytes-8)
	for at := max(off, around) - around; at < end; at += 8 {
		q := unsafe.Pointer(&b.data[at])
		bin := b.addr + at - 16
		if *(*uint64)(q) == bin && *(*uint64)(unsafe.Add(q, 8)) == bin {
			return true
		}
	}
	return false
}

// putWord puts a word into a buffer.
func putWord(b *buffer, i int, v uint64) {
	if (i+1)*8 <= winBytes {
		*(*uint64)(unsafe.Pointer(&b.data[i*8])) = v
	}
}
