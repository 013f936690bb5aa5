//go:build linux && !viewer

package analyzer

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// newChunk returns chunkSize bytes of zeroes, in huge pages if the kernel has them to spare.
func newChunk(huge bool) (unsafe.Pointer, error) {
	mem, err := mapAligned(huge)
	if huge && err == nil {
		// Advice only: without huge pages the heap is slower, not wrong.
		_ = unix.Madvise(unsafe.Slice((*byte)(mem), chunkSize), unix.MADV_HUGEPAGE)
	}
	return mem, err
}

// mapAligned maps a chunk, at a multiple of its size if aligned, as a huge page
// must be: it maps twice as much and unmaps what juts out.
func mapAligned(aligned bool) (unsafe.Pointer, error) {
	size := uintptr(chunkSize)
	if aligned {
		size *= 2
	}
	mem, err := unix.MmapPtr(-1, 0, nil, size,
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err != nil || !aligned {
		return mem, err
	}
	head := -uintptr(mem) % chunkSize
	if head != 0 {
		_ = unix.MunmapPtr(mem, head)
	}
	mem = unsafe.Add(mem, head)
	_ = unix.MunmapPtr(unsafe.Add(mem, chunkSize), chunkSize-head)
	return mem, nil
}

// dropChunk cannot fail for a whole mapping of our own; if it did, the memory
// would be kept, and nothing else.
func dropChunk(mem unsafe.Pointer) { _ = unix.MunmapPtr(mem, chunkSize) }

// discard gives pages of a chunk back to the kernel, and reports whether it has.
func discard(pages []byte) bool { return unix.Madvise(pages, unix.MADV_DONTNEED) == nil }
