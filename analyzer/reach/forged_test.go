package reach

import (
	"os"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/procfs"
)

// TestArenaLikeBaseBlock: memory of a program's own that begins as jemalloc's base blocks do
// is none while its records tell of no block; with one that does, it is.
func TestArenaLikeBaseBlock(t *testing.T) {
	start, words := arena(t, 2*baseUnit)
	base := (start + baseUnit - 1) &^ (baseUnit - 1)
	w := words[(base-start)/8:]
	w[0], w[3], w[4] = baseUnit, base+1<<16, baseUnit-1<<16 // size, next, blocks in use, what is left: from where, how much
	const block = 0x7000
	s := &space{maps: []vma{{start: start, end: start + 2*baseUnit, kind: procfs.KindAnon, perms: procfs.Read | procfs.Write, read: true}}}
	s.addPages(base, base+baseUnit, true)
	mem := &memory{tid: os.Getpid(), still: true}
	x := indexOf(t, []Leak{{Addr: base + 1<<20 + 64, Size: 100}})
	if j := s.findJemalloc(mem, x); len(j.base)+len(j.extents) != 0 {
		t.Errorf("an arena is taken for jemalloc's: %x", j)
	}
	copy(w[1<<9:], []uint64{0x10000170b002, base + 1<<20, block}) // a slab, as in TestJemallocExtents
	if j := s.findJemalloc(mem, x); len(j.base) != 1 || j.base[0] != (zone{base, base + baseUnit}) {
		t.Errorf("a base block is not known: %x", j)
	}
}

// TestLargeKeptStack: a record that a program has made up for a stack far larger than
// any does not make the scan take as much memory.
func TestLargeKeptStack(t *testing.T) {
	const size = 1 << 30
	start, _ := arena(t, size)
	c := &scan{cached: []cachedStack{{zone{start, start + size}, start + pageBytes, true}}}
	c.mem.tid, c.mem.still = os.Getpid(), true
	c.marker = &marker{x: indexOf(t, []Leak{{Addr: start + 1<<20, Size: 100}})}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	c.keepVectors()
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 4*maxStackRecords {
		t.Errorf("%d bytes were taken for it", n)
	}
}

// arena maps memory of this process's.
func arena(t *testing.T, size int) (start uint64, words []uint64) {
	t.Helper()
	m, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(m) })
	return uint64(uintptr(unsafe.Pointer(&m[0]))), unsafe.Slice((*uint64)(unsafe.Pointer(&m[0])), size/8)
}
