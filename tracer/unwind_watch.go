package tracer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapWatch tells of code that is mapped, or made executable, as it happens:
// by the records that the kernel writes for profilers (PERF_RECORD_MMAP,
// perf_event_open(2)), for all processes. Mapping a library goes before
// relocating it and running its constructors, which leaves time to load its
// tables.
//
// Code that goes away needs no notice: no stack is in it any more, and what is
// mapped in its place is told of.
type mapWatch struct {
	epoll int
	wake  int // eventfd
	rings []mapRing
}

// mapRing is one CPU's ring.
type mapRing struct {
	fd     int
	memory []byte
}

// mapRingPages is a power of two: 64 KiB, some 500 records.
const mapRingPages = 16

// startMapWatch fails where the kernel or the privileges don't allow it; then
// new code is known only once the unwinder has met it.
func startMapWatch() (*mapWatch, error) {
	cpus, err := onlineCPUs()
	if err != nil {
		return nil, err
	}
	w := &mapWatch{epoll: -1, wake: -1}
	if w.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("create an epoll instance: %w", err)
	}
	if w.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err == nil {
		err = w.add(w.wake)
	}
	for _, cpu := range cpus {
		if err == nil {
			err = w.open(cpu)
		}
	}
	if err != nil {
		w.close()
		return nil, fmt.Errorf("watch for new code: %w", err)
	}
	return w, nil
}

func (w *mapWatch) open(cpu int) error {
	attr := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_DUMMY, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Bits: unix.PerfBitMmap | unix.PerfBitWatermark | unix.PerfBitSampleIDAll | unix.PerfBitUseClockID, Wakeup: 1,
		Sample_type: unix.PERF_SAMPLE_TIME, Clockid: unix.CLOCK_MONOTONIC,
	}
	fd, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("open a perf event on CPU %d: %w", cpu, err)
	}
	memory, err := unix.Mmap(fd, 0, (mapRingPages+1)*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		_ = unix.Close(fd)
		return fmt.Errorf("map the ring of CPU %d: %w", cpu, err)
	}
	w.rings = append(w.rings, mapRing{fd, memory})
	return w.add(fd)
}

func (w *mapWatch) add(fd int) error {
	return unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
}

// run calls mapped for processes that have mapped code, with the time of the first
// mapping, ns of CLOCK_MONOTONIC, until stop. Where the kernel had no room to say which, all is set.
func (w *mapWatch) run(mapped func(pids map[int]uint64, all bool)) {
	events := make([]unix.EpollEvent, len(w.rings)+1)
	for {
		n, err := unix.EpollWait(w.epoll, events, -1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
		for _, e := range events[:max(n, 0)] {
			if int(e.Fd) == w.wake {
				return
			}
		}
		pids, all := make(map[int]uint64), false
		for i := range w.rings {
			all = w.rings[i].drain(pids) || all
		}
		mapped(pids, all)
	}
}

// stop ends run.
func (w *mapWatch) stop() {
	one := [8]byte{1}
	_, _ = unix.Write(w.wake, one[:]) // an eventfd of ours takes a 1
}

func (w *mapWatch) close() {
	for _, r := range w.rings {
		_ = unix.Munmap(r.memory)
		_ = unix.Close(r.fd)
	}
	for _, fd := range []int{w.wake, w.epoll} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// A record's header is {type u32, misc u16, size u16}; that of a mapping goes
// on with {pid, tid u32; addr, len, pgoff u64; char filename[]} and, as we ask for it, the time u64.
const (
	perfHeader   = 8
	perfMmapName = perfHeader + 8 + 24
	perfTime     = 8
)

// drain adds the processes in the ring to pids and reports whether there were more.
func (r *mapRing) drain(pids map[int]uint64) (more bool) {
	page := (*unix.PerfEventMmapPage)(unsafe.Pointer(&r.memory[0]))
	data := r.memory[os.Getpagesize():]
	head, tail := atomic.LoadUint64(&page.Data_head), page.Data_tail
	for head-tail >= perfHeader {
		header := ringBytesAt(data, tail, perfHeader)
		size := uint64(binary.NativeEndian.Uint16(header[6:]))
		if size < perfHeader || size > head-tail {
			tail, more = head, true // never so
			break
		}
		switch binary.NativeEndian.Uint32(header) {
		case unix.PERF_RECORD_LOST:
			more = true
		case unix.PERF_RECORD_MMAP:
			record := ringBytesAt(data, tail, size)
			if pid := mappedBy(record); pid != 0 {
				at := binary.NativeEndian.Uint64(record[len(record)-perfTime:])
				if first, known := pids[pid]; !known || at < first {
					pids[pid] = at
				}
			}
		}
		tail += size
	}
	atomic.StoreUint64(&page.Data_tail, tail)
	return more
}

// ringBytesAt copies n bytes out of a ring, whose size is a power of two.
func ringBytesAt(ring []byte, at, n uint64) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = ring[(at+uint64(i))&uint64(len(ring)-1)]
	}
	return out
}

// mappedBy returns the process that mapped a file of code, 0 for any other
// memory: code that a compiler makes at run time has no tables to load, and
// the unwinder reports it where it matters.
func mappedBy(record []byte) int {
	if len(record) <= perfMmapName+perfTime {
		return 0
	}
	name := string(record[perfMmapName:])
	if !strings.HasPrefix(name, "/") || strings.HasPrefix(name, "//anon") || strings.HasPrefix(name, "/memfd:") ||
		strings.HasPrefix(name, "/dev/") || strings.HasPrefix(name, "/SYSV") {
		return 0
	}
	return int(binary.NativeEndian.Uint32(record[perfHeader:]))
}
