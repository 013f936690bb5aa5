package poolname

import (
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// record is a pool as Reader{Offset: 16} takes it.
type record struct {
	_    [2]uint64
	name *byte
}

// A name ends with its page, if the next one can't be read, and is nothing else than text.
func TestNames(t *testing.T) {
	pid := uint32(os.Getpid())
	page, err := unix.Mmap(-1, 0, 2*pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(page) }()
	if err := unix.Mprotect(page[pageSize:], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	copy(page, "CacheMemoryContext\x00more")
	copy(page[100:], "no\ntext\x00")
	copy(page[pageSize-6:], "ending")
	for at, want := range map[int]string{0: "CacheMemoryContext", 100: "", 50: "", pageSize - 6: "ending", pageSize: ""} {
		addr := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(page)))) + uint64(at)
		if got := (Reader{}).Text(pid, addr); got != want {
			t.Errorf("at %d there is %q, want %q", at, got, want)
		}
	}
	r := &record{name: &page[0]}
	addr := uint64(uintptr(unsafe.Pointer(r)))
	if got := (Reader{Offset: 16}).Pool(pid, addr); got != "CacheMemoryContext" {
		t.Errorf("the pool is called %q", got)
	}
	if got := (Reader{}).Pool(pid, addr); got != "" {
		t.Errorf("a pool whose record is not known is called %q", got)
	}
}
