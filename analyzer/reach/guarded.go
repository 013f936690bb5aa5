//go:build linux && !viewer

package reach

import "unsafe"

// What GWP-ASan, which is a part of scudo, has of each block that it gave a page of
// its own, one of 5,000 unless set otherwise (gwp_asan/common.h, AllocationMetadata). In words:
//
//	0    address, size as asked for
//	2    256 bytes of call stack, ID of the thread that allocated it, length of the stack
//	36   the same of its free; the ID is ^0 until then
//	70   flags
const (
	guardedThread = 2 + 32
	guardedLength = guardedThread + 1
	guardedFreed  = 36 + 32
	guardedRecord = guardedFreed + 1

	guardedTrace = 256
	mostThreads  = 1 << 22 // PID_MAX_LIMIT
)

// inGuardedRecord reports whether a pointer to the start of block i stands in GWP-ASan's record of it.
func (w *worker) inGuardedRecord(i uint32, b *buffer, p unsafe.Pointer) bool {
	off := uint64(uintptr(p) - uintptr(unsafe.Pointer(b.data)))
	if b.addr == 0 || off+16 > winBytes || *(*uint64)(unsafe.Add(p, 8)) != w.x.size(i) {
		return false
	}
	var record [guardedRecord]uint64
	return w.mem.words(b.addr+off, record[:]) == nil && isGuarded(&record)
}

// isGuarded reports whether the words behind a block's address and size are those of GWP-ASan's record of it.
func isGuarded(record *[guardedRecord]uint64) bool {
	thread := record[guardedThread]
	return thread != 0 && thread <= mostThreads && record[guardedLength] <= guardedTrace &&
		record[guardedFreed] == ^uint64(0)
}
