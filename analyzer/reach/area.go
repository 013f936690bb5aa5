//go:build linux && !viewer

package reach

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// An area is memory that the garbage collector does not know, zero at first
// and there from its first use on: tables may be sized for the worst case.
type area struct{ mappings []mapping }

type mapping struct {
	at   unsafe.Pointer
	size uintptr
}

// table returns n zero values of T, which must hold no pointers.
func table[T any](a *area, n uint64) ([]T, error) {
	var t T
	if n == 0 {
		return nil, nil
	}
	if n > maxTable/uint64(unsafe.Sizeof(t)) {
		return nil, fmt.Errorf("map a table of %d entries: too large", n)
	}
	size := uintptr(n) * unsafe.Sizeof(t)
	at, err := unix.MmapPtr(-1, 0, nil, size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes for a table: %w", size, err)
	}
	a.mappings = append(a.mappings, mapping{at, size})
	if size >= hugeFrom {
		// Tables are looked up at random: with small pages most of the time would
		// go into address translation. The kernel may decline.
		_ = unix.Madvise(unsafe.Slice((*byte)(at), size), unix.MADV_HUGEPAGE)
	}
	return unsafe.Slice((*T)(at), n), nil
}

// hugeFrom is the size of tables from which on they are to have huge pages.
const hugeFrom = 2 << 20

// maxTable bounds a table's address space.
const maxTable = 1 << 40

func (a *area) close() {
	for _, m := range a.mappings {
		_ = unix.MunmapPtr(m.at, m.size) // it cannot fail for a whole mapping of our own
	}
	a.mappings = nil
}
