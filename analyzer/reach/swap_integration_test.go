//go:build integration

package reach

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/procfs"
)

// TestSwappedPagesAreRead scans the corpus while its pages are in swap: what is
// only held from there is held.
func TestSwappedPagesAreRead(t *testing.T) {
	swapOn(t)
	c := startCorpus(t, buildCorpus(t))
	pageOut(t, c.process)
	r, err := Scan(c.process, c.each, Options{AllSeen: true})
	if err != nil {
		t.Fatal(err)
	}
	c.check(t, r, map[string]string{"register": "definite"})
	if r.Swapped < 1<<20 || r.Unread != 0 {
		t.Errorf("%d bytes were in swap, %d could not be read", r.Swapped, r.Unread)
	}
}

// swapOn gives the kernel a file to swap to for the time of the test.
func swapOn(t *testing.T) {
	t.Helper()
	const size, page = 64 << 20, 4096
	head := make([]byte, page) // union swap_header of include/linux/swap.h
	binary.NativeEndian.PutUint32(head[1024:], 1)
	binary.NativeEndian.PutUint32(head[1028:], size/page-1)
	copy(head[page-10:], "SWAPSPACE2")
	path := filepath.Join(t.TempDir(), "swap")
	if err := os.WriteFile(path, append(head, make([]byte, size-page)...), 0o600); err != nil {
		t.Fatal(err)
	}
	name, err := unix.BytePtrFromString(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, errno := unix.Syscall(unix.SYS_SWAPON, uintptr(unsafe.Pointer(name)), 0, 0); errno == unix.EINVAL {
		t.Fatalf("the file system of %s cannot hold a swap file; set TMPDIR to a folder on ext4 or xfs", path)
	} else if errno != 0 {
		t.Fatalf("swapon %s: %v", path, errno)
	}
	t.Cleanup(func() {
		if _, _, errno := unix.Syscall(unix.SYS_SWAPOFF, uintptr(unsafe.Pointer(name)), 0, 0); errno != 0 {
			t.Errorf("swapoff %s: %v", path, errno)
		}
	})
}

// pageOut has the kernel swap out what it can of a process.
func pageOut(t *testing.T, p *procfs.Process) {
	t.Helper()
	fd, err := unix.PidfdOpen(p.PID(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	var ranges []unix.RemoteIovec // as struct iovec
	err = p.Maps(func(v *procfs.VMA) {
		if v.Perms&procfs.Write != 0 && v.Perms&procfs.Shared == 0 {
			ranges = append(ranges, unix.RemoteIovec{Base: uintptr(v.Start), Len: int(v.End - v.Start)})
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range ranges {
		_, _, errno := unix.Syscall6(unix.SYS_PROCESS_MADVISE, uintptr(fd), uintptr(unsafe.Pointer(&ranges[i])), 1, unix.MADV_PAGEOUT, 0, 0)
		if errno != 0 {
			t.Fatalf("page out a mapping: %v", errno)
		}
	}
}
