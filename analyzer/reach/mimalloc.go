//go:build linux && !viewer

package reach

import "unsafe"

// Where mimalloc 3 has, at the beginning of a slice of 64 KiB, the record of the
// blocks in it and behind (mi_page_t), of 64 bytes and more:
//
//	+0x10  uint16 used, capacity, reserved
//	+0x28  size of a block
//	+0x30  the first block
const (
	pageCounts = 0x10
	pageSize   = 0x28
	pageFirst  = 0x30
	pageRecord = 0x40
)

// inPageRecord reports whether a pointer to the start of block i stands in mimalloc's own
// record of the page that the block is the first of. That is known without what is around:
// also where blocks of before an attach are not known.
func (w *worker) inPageRecord(i uint32, start uint64, b *buffer, p unsafe.Pointer) bool {
	off := uint64(uintptr(p) - uintptr(unsafe.Pointer(b.data)))
	if b.addr == 0 || off%mimallocSlice != pageFirst {
		return false
	}
	slice := b.addr + off - pageFirst
	if start < slice+pageRecord || start >= slice+mimallocSlice {
		return false
	}
	r := b.data[off-pageFirst : off-pageFirst+pageRecord]
	counts, size := *(*[3]uint16)(unsafe.Pointer(&r[pageCounts])), *(*uint64)(unsafe.Pointer(&r[pageSize]))
	return counts[0] <= counts[1] && counts[1] <= counts[2] && counts[2] != 0 && size >= w.x.size(i) && size%8 == 0 && size < 1<<addrBits
}
