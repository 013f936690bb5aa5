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
// takes CAP_SYS_ADMIN. It is the same until the machine restarts.
var zeroFrame = sync.OnceValue(findZeroFrame)

// findZeroFrame reads a page of memtrace's own.
func findZeroFrame() uint64 {
	mem, err := unix.Mmap(-1, 0, int(pageSize), unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return 0
	}
	defer func() { _ = unix.Munmap(mem) }()
	atomic.LoadUint32((*uint32)(unsafe.Pointer(unsafe.SliceData(mem))))
	fd, err := unix.Open(DefaultRoot+"/self/pagemap", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer func() { _ = unix.Close(fd) }()
	var entry [1]PageEntry
	at := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))) / pageSize * entryBytes
	if n, err := unix.Pread(fd, bytesOf(entry[:]), int64(at)); err != nil || n != entryBytes {
		return 0
	}
	return entry[0].Frame()
}
