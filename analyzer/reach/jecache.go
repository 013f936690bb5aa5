//go:build linux && !viewer

package reach

import (
	"unsafe"

	"github.com/memtrace/memtrace/procfs"
)

// A stack of a thread's cache has 24 bytes in the thread's variables, and
// dozens of them follow one another. In jemalloc 5.3,
//
//	{void **head; uint64 requests; uint16 low_water, full, empty, 0 or how many}
//
// where full and empty are the lower halves of the addresses of its ends; in 5.0 to 5.2,
//
//	{int32 low_water; uint32 cached; uint64 requests; void **end}.
const (
	binWords  = 3
	fewBins   = 30      // in a row: as many as there are small sizes, nearly
	tlsAbove  = 1 << 20 // at a mapping's end: thread stacks have the variables there
	tlsBelow  = 1 << 18 // at its beginning: static programs have them there
	maxBins   = 256 << 20
	firstBin  = 200 * 8 // bytes of the first stack: of 200 blocks of 8 bytes
	maxCached = 1 << 13
)

// findCacheStacks finds what the stacks lie in. They are of the allocator's memory.
func (s *space) findCacheStacks(mem *memory, base, extents zones) zones {
	var where, found []zone
	for i := range s.maps {
		v := &s.maps[i]
		if !v.read || v.kind != procfs.KindAnon && v.kind != procfs.KindHeap {
			continue
		}
		where = append(where, zone{max(v.end-tlsAbove, v.start), v.end}, zone{v.start, min(v.start+tlsBelow, v.end)})
	}
	var room uint64 = maxBins
	s.eachWord(mem, joined(where).without(base), &room, func(w []uint64) {
		found = append(found, binsIn(w, extents, newBin)...)
		found = append(found, binsIn(w, extents, oldBin)...)
	})
	return joined(found)
}

// binsIn looks for rows of stacks, and returns what they span.
func binsIn(w []uint64, extents zones, of func(w []uint64) zone) (out []zone) {
	for at := 0; at+binWords <= len(w); {
		row, n := binRow(w[at:], extents, of)
		if n < fewBins {
			at++
			continue
		}
		out = append(out, row)
		at += n * binWords
	}
	return out
}

// binRow is the row of stacks at the beginning of words: each ends above the
// one before.
func binRow(w []uint64, extents zones, of func(w []uint64) zone) (row zone, n int) {
	for ; binWords <= len(w); n++ {
		z := of(w[:binWords])
		if z.end == 0 || n > 0 && (z.end <= row.end || z.end-row.end > maxCached*8) || extents.bytes(z.start, z.end) != z.end-z.start {
			break
		}
		if n == 0 {
			row.start = z.start
		}
		row.end = z.end
		w = w[binWords:]
	}
	return row, n
}

// newBin takes words for a stack of 5.3.
func newBin(w []uint64) zone {
	full, empty, count := uint16(w[2]>>16), uint16(w[2]>>32), uint16(w[2]>>48)
	span, below := empty-full, empty-uint16(w[0])
	if w[0]%8 != 0 || w[0] == 0 || w[0] >= 1<<addrBits || span == 0 || span%8 != 0 || below > span || count != 0 && count != span/8 {
		return zone{}
	}
	end := w[0] + uint64(below)
	return zone{end - uint64(span), end}
}

// oldBin takes words for a stack of 5.0 to 5.2.
func oldBin(w []uint64) zone {
	low, cached, end := int32(w[0]), uint32(w[0]>>32), w[2]
	if end%8 != 0 || end <= firstBin || end >= 1<<addrBits || cached > maxCached || low < -1 || low > int32(cached) {
		return zone{}
	}
	return zone{end - firstBin, end}
}

// words are those between two offsets into the buffer, multiples of 8.
func (b *buffer) words(from, to uint64) []uint64 {
	if to <= from {
		return nil
	}
	return unsafe.Slice((*uint64)(unsafe.Pointer(&b.data[from])), (to-from)/8)
}

// leafUnit divides the addresses that begin what a leaf of jemalloc's tree of extents is of
// (rtree.h): they are 1 GiB apart with addresses of 48 bits, and less with longer ones.
const leafUnit = 1 << 27

// inLeafCache reports whether an address stands in a thread's cache of that tree, where it is
// a key: behind it is the leaf, in a base block. That cache is a thread-local variable.
func (w *worker) inLeafCache(addr uint64, b *buffer, p unsafe.Pointer) bool {
	off := uint64(uintptr(p) - uintptr(unsafe.Pointer(b.data)))
	return addr%leafUnit == 0 && len(w.base) != 0 && b.addr != 0 && off+16 <= winBytes &&
		w.base.has(*(*uint64)(unsafe.Add(p, 8)))
}
