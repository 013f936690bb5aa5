//go:build linux && !viewer

package procfs

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// zeroFrame is the frame number of the page of zeroes that the kernel maps
// where anonymous memory is read that was never written (do_anonymous_page in
// mm/memory.c): no RSS counts it. 0 where frame numbers are not to be seen, which
// takes CAP_SYS_ADMIN, or where the kernel maps a page of its own for each such
// read. It is the same until the machine restarts.
var zeroFrame = sync.OnceValue(findZeroFrame)

// findZeroFrame reads two pages of memtrace's own: they are one, if it is the zero page.
func findZeroFrame() uint64 {
	mem, err := unix.Mmap(-1, 0, 2*int(pageSize), unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return 0
	}
	defer func() { _ = unix.Munmap(mem) }()
	for _, at := range []int{0, int(pageSize)} {
		atomic.LoadUint32((*uint32)(unsafe.Pointer(&mem[at])))
	}
	fd, err := unix.Open(DefaultRoot+"/self/pagemap", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer func() { _ = unix.Close(fd) }()
	var entries [2]PageEntry
	at := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))) / pageSize * entryBytes
	if n, err := unix.Pread(fd, bytesOf(entries[:]), int64(at)); err != nil || n != len(entries)*entryBytes {
		return 0
	}
	if entries[0].Frame() != entries[1].Frame() {
		return 0
	}
	return entries[0].Frame()
}
