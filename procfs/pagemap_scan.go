//go:build linux && !viewer

package procfs

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pagemapScan is the ioctl PAGEMAP_SCAN, _IOWR('f', 16, struct pm_scan_arg)
// of include/uapi/linux/fs.h.
const pagemapScan = 0xc0606610

// Categories of a page in PAGEMAP_SCAN.
const (
	pageIsPresent = 1 << 3
	pageIsSwapped = 1 << 4
	pageIsPFNZero = 1 << 5
)

// scanArg is struct pm_scan_arg.
type scanArg struct {
	size, flags                     uint64
	start, end, walkEnd             uint64
	vec, vecLen, maxPages           uint64
	inverted, mask, anyOf, returned uint64
}

// scanRegion is struct page_region.
type scanRegion struct{ start, end, categories uint64 }

const (
	scanRegions = 1024
	// scanSpan and scanPages bound the address space of one call, and the pages
	// found there: during all of it the kernel may hold the target's mmap lock.
	// 4,096 pages take 0.05 ms.
	scanSpan  = 64 << 20
	scanPages = 4096
)

// scanner is what one scan needs; it is pooled for its regions.
type scanner struct {
	arg     scanArg
	regions [scanRegions]scanRegion
}

var scanners = sync.Pool{New: func() any { return new(scanner) }}

// haveScan tells whether the kernel has PAGEMAP_SCAN (Linux 6.7): nil,
// ErrNotSupported, or another error.
var haveScan = sync.OnceValue(probeScan)

// probeScan scans one page of memtrace itself.
func probeScan() error {
	fd, err := unix.Open(DefaultRoot+"/self/pagemap", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("probe PAGEMAP_SCAN: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	s := scanners.Get().(*scanner)
	defer scanners.Put(s)
	page := uint64(uintptr(unsafe.Pointer(s))) / pageSize * pageSize
	_, err = s.call(fd, page, page+pageSize)
	if errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("PAGEMAP_SCAN (Linux 6.7): %w", ErrNotSupported)
	}
	return err
}

// call scans from start to end. It returns how many regions it found;
// s.arg.walkEnd says how far it got.
func (s *scanner) call(fd int, start, end uint64) (int, error) {
	s.arg = scanArg{
		size: uint64(unsafe.Sizeof(s.arg)), start: start, end: end,
		vec: uint64(uintptr(unsafe.Pointer(&s.regions))), vecLen: scanRegions, maxPages: scanPages,
		anyOf: pageIsPresent | pageIsSwapped, returned: pageIsPresent | pageIsSwapped | pageIsPFNZero,
	}
	for {
		n, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), pagemapScan, uintptr(unsafe.Pointer(&s.arg)))
		runtime.KeepAlive(s)
		switch {
		case errno == unix.EINTR:
		case errno != 0:
			return 0, errno
		default:
			return int(min(n, scanRegions)), nil
		}
	}
}

// scan is Runs by PAGEMAP_SCAN. On error it returns how far it got.
func (m *Pagemap) scan(start, end uint64, fn func(start, end uint64, state PageState)) (uint64, error) {
	if err := haveScan(); err != nil {
		if errors.Is(err, ErrNotSupported) {
			return start, err
		}
		return start, m.p.wrap("scan", "pagemap", err)
	}
	s := scanners.Get().(*scanner)
	defer scanners.Put(s)
	for start < end {
		n, err := m.timed(func() (int, error) { return s.call(m.fd, start, min(end, start+scanSpan)) })
		if errors.Is(err, unix.ENOTTY) {
			return start, ErrNotSupported // a fixture, or a kernel's stand-in for one
		}
		if err != nil {
			return start, m.p.wrap("scan", "pagemap", err)
		}
		for _, r := range s.regions[:n] {
			if state := stateOfCategories(r.categories); state != 0 {
				fn(r.start, r.end, state)
			}
		}
		if s.arg.walkEnd <= start {
			return start, m.p.wrap("scan", "pagemap", fmt.Errorf("%w: no progress at %#x", ErrFormat, start))
		}
		start = s.arg.walkEnd
	}
	// A dead address space scans as an empty one; reading tells them apart.
	var entry [1]PageEntry
	_, err := m.Read(0, entry[:])
	return start, err
}

func stateOfCategories(c uint64) PageState {
	switch {
	case c&pageIsPresent != 0 && c&pageIsPFNZero == 0:
		return PagePresent
	case c&pageIsSwapped != 0:
		return PageSwapped
	}
	return 0
}

// bytesOf returns the memory of entries.
func bytesOf(entries []PageEntry) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(entries))), len(entries)*entryBytes)
}
