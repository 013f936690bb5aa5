//go:build linux && !viewer

package reach

import (
	"errors"
	"fmt"
	"math/bits"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// memory reads the target's memory. It may be used concurrently.
//
// process_vm_readv holds the target's mmap lock only while it looks up the
// pages of a call, at most winPages of them; a call is the step that longest
// measures, copying included, so the lock is held for less. The page map's
// calls count likewise.
type memory struct {
	tid     int  // a thread that has the memory
	still   bool // the process does not run meanwhile
	longest atomic.Int64
	read    atomic.Uint64 // bytes
	failed  atomic.Uint64 // bytes that could not be read
	gone    atomic.Bool   // the process ended or let go of its memory, or nobody wants to know any more
}

// errUnreadable means that memory could not be read.
var errUnreadable = errors.New("memory is not readable")

// words reads consecutive words.
func (m *memory) words(addr uint64, into []uint64) error {
	local := unix.Iovec{Base: (*byte)(unsafe.Pointer(unsafe.SliceData(into)))}
	local.SetLen(8 * len(into))
	n, err := m.readv([]unix.Iovec{local}, []unix.RemoteIovec{{Base: uintptr(addr), Len: 8 * len(into)}})
	if err != nil || n != 8*len(into) {
		return fmt.Errorf("read %d bytes at %#x of process %d: %w", 8*len(into), addr, m.tid, errors.Join(err, errUnreadable))
	}
	return nil
}

func (m *memory) readv(local []unix.Iovec, remote []unix.RemoteIovec) (int, error) {
	n, err := m.call(func() (int, error) {
		began := time.Now()
		n, err := unix.ProcessVMReadv(m.tid, local, remote, 0)
		m.held(time.Since(began))
		return n, err
	})
	if n > 0 {
		m.read.Add(uint64(n))
	}
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EPERM) {
		m.gone.Store(true)
	}
	return n, err
}

// call makes a call that takes the process's mmap lock.
func (m *memory) call(fn func() (int, error)) (int, error) {
	if m.still {
		return fn()
	}
	return Briefly(fn)
}

// held takes note of a call during which the target's mmap lock may have been held.
func (m *memory) held(took time.Duration) {
	for {
		longest := m.longest.Load()
		if int64(took) <= longest || m.longest.CompareAndSwap(longest, int64(took)) {
			return
		}
	}
}

// A buffer holds pages of one window.
type buffer struct {
	data  *[winBytes]byte
	addr  uint64
	pages uint64 // those that were read
}

func newBuffer() (*buffer, error) {
	mem, err := unix.MmapPtr(-1, 0, nil, winBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("map a buffer: %w", err)
	}
	return &buffer{data: (*[winBytes]byte)(mem)}, nil
}

func (b *buffer) close() { _ = unix.MunmapPtr(unsafe.Pointer(b.data), winBytes) }

// fill reads the pages in want that are not there yet.
func (b *buffer) fill(m *memory, w *window, want uint64) {
	if b.addr != w.addr {
		b.addr, b.pages = w.addr, 0
	}
	want &= w.present &^ b.pages
	if want == 0 {
		return
	}
	got := b.readPages(m, want)
	if got != want && !m.gone.Load() {
		// One page that is gone keeps all after it from being read.
		for rest := want &^ got; rest != 0; rest &= rest - 1 {
			one := rest & -rest
			if b.readPages(m, one) == one {
				got |= one
			} else {
				m.failed.Add(pageBytes)
			}
		}
	}
	b.pages |= got
}

// readPages reads runs of pages with one call and returns those that came.
func (b *buffer) readPages(m *memory, want uint64) (got uint64) {
	var local [winPages / 2]unix.Iovec
	var remote [winPages / 2]unix.RemoteIovec
	n := 0
	for rest := want; rest != 0; n++ {
		first := bits.TrailingZeros64(rest)
		length := bits.TrailingZeros64(^(rest >> first))
		local[n].Base = &b.data[first<<pageShift]
		local[n].SetLen(length << pageShift)
		remote[n] = unix.RemoteIovec{Base: uintptr(b.addr) + uintptr(first)<<pageShift, Len: length << pageShift}
		rest &^= pageMask(uint64(first)<<pageShift, uint64(first+length)<<pageShift)
	}
	done, err := m.readv(local[:n], remote[:n])
	if err != nil {
		return 0
	}
	for rest := want; rest != 0 && done >= pageBytes; rest &= rest - 1 {
		got |= rest & -rest
		done -= pageBytes
	}
	return got
}
