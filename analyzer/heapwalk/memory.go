package heapwalk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/analyzer/reach"
	"github.com/memtrace/memtrace/procfs"
)

// pageBytes is the size of a page, to which glibc rounds what it maps.
var pageBytes = uint64(os.Getpagesize())

// viewBytes is what one call reads at most, some pages: the target's mmap lock
// is held while they are looked up.
const viewBytes = 256 << 10

// A span is memory from start up to, not including, end.
type span struct{ start, end uint64 }

// A mapping is a line of /proc/PID/maps.
type mapping struct {
	span
	kind  procfs.Kind
	perms procfs.Perms
	inode uint64
	path  string
}

// memory reads the memory of a process.
type memory struct {
	p       *procfs.Process
	tid     int                                    // a thread that has the memory
	call    func(func() (int, error)) (int, error) // makes a call that takes the mmap lock
	pages   *procfs.Pagemap
	maps    []mapping
	read    uint64        // bytes
	longest time.Duration // of all calls that read
	budget  budget
	heaps   int // of threads' arenas, that were looked at
	search  int // steps of findStart so far

	changing bool // something looks like an arena whose parts don't fit together
}

// openMemory reads what the process has mapped. still says that it stands
// still, and waits for no lock.
func openMemory(p *procfs.Process, tid int, still bool) (*memory, error) {
	m := &memory{p: p, tid: tid, call: reach.Briefly, budget: newBudget(p)}
	if still {
		m.call = directly
	}
	var names procfs.Names
	err := p.Maps(func(v *procfs.VMA) {
		m.maps = append(m.maps, mapping{span{v.Start, v.End}, v.Kind, v.Perms, v.Inode, names.Of(v.Path)})
	})
	if err != nil {
		return nil, err
	}
	if m.pages, err = p.OpenPagemap(); err == nil {
		m.pages.Around(m.call)
	}
	return m, err
}

func (m *memory) close() {
	if m.pages != nil {
		_ = m.pages.Close()
	}
}

// mappingOf returns the mapping that addr lies in, or nil.
func (m *memory) mappingOf(addr uint64) *mapping {
	lo, hi := 0, len(m.maps)
	for lo < hi {
		if mid := (lo + hi) / 2; m.maps[mid].end <= addr {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == len(m.maps) || m.maps[lo].start > addr {
		return nil
	}
	return &m.maps[lo]
}

// anonymous tells private memory for reading and writing without a file.
func (v *mapping) anonymous() bool {
	const wanted = procfs.Read | procfs.Write
	return v.kind == procfs.KindAnon && v.perms&(wanted|procfs.Shared) == wanted
}

// directly is for a process that waits for no lock.
func directly(call func() (int, error)) (int, error) { return call() }

// errUnreadable means that memory that was to be read is not there.
var errUnreadable = errors.New("memory is not readable")

// readv reads runs of memory one after the other into buf.
func (m *memory) readv(buf []byte, remote []unix.RemoteIovec) (int, error) {
	if err := m.budget.take(len(buf)); err != nil {
		return 0, err
	}
	local := unix.Iovec{Base: &buf[0]}
	local.SetLen(len(buf))
	n, err := m.call(func() (int, error) {
		began := time.Now()
		n, err := unix.ProcessVMReadv(m.tid, []unix.Iovec{local}, remote, 0)
		m.longest = max(m.longest, time.Since(began))
		return n, err
	})
	m.read += uint64(max(n, 0))
	switch {
	case errors.Is(err, unix.ESRCH):
		return n, fmt.Errorf("read the memory of process %d: %w", m.p.PID(), procfs.ErrGone)
	case errors.Is(err, unix.EPERM):
		return n, fmt.Errorf("read the memory of process %d: %w: run as root or as the process's own user, or as memtrace doctor says (it takes CAP_SYS_PTRACE)", m.p.PID(), err)
	}
	return n, err
}

// words reads consecutive words at a multiple of 8.
func (m *memory) words(addr uint64, into []uint64) error {
	buf := make([]byte, 8*len(into))
	n, err := m.readv(buf, []unix.RemoteIovec{{Base: uintptr(addr), Len: len(buf)}})
	if err != nil && !errors.Is(err, unix.EFAULT) {
		return err
	}
	if n != len(buf) {
		return fmt.Errorf("read %d bytes at %#x of process %d: %w", len(buf), addr, m.p.PID(), errUnreadable)
	}
	for i := range into {
		into[i] = binary.LittleEndian.Uint64(buf[8*i:])
	}
	return nil
}

// word reads one word; 0 where it cannot be read.
func (m *memory) word(addr uint64) uint64 {
	var w [1]uint64
	if addr%8 != 0 || m.words(addr, w[:]) != nil {
		return 0
	}
	return w[0]
}

// present lists the pages of a range that are in memory or in swap, as runs.
func (m *memory) present(s span) (runs []span, err error) {
	err = m.pages.Runs(s.start, s.end, func(start, end uint64, _ procfs.PageState) {
		if n := len(runs); n > 0 && runs[n-1].end == start {
			runs[n-1].end = end
			return
		}
		runs = append(runs, span{start, end})
	})
	return runs, err
}

// A view is a window on a range of memory that moves forward. Pages that the
// process does not have read as zeros and are not touched.
type view struct {
	m     *memory
	whole span
	runs  []span // present pages of it, ascending
	base  uint64
	data  []byte // from base on
	buf   []byte
	next  int // the run to look at first
}

func (m *memory) view(s span) (*view, error) {
	runs, err := m.present(s)
	if err != nil {
		return nil, err
	}
	return &view{m: m, whole: s, runs: runs, buf: make([]byte, viewBytes)}, nil
}

// at returns n bytes at addr, n at most viewBytes less a page. Within the view
// they are as they were read together.
func (v *view) at(addr, n uint64) ([]byte, error) {
	if addr >= v.base && addr+n <= v.base+uint64(len(v.data)) {
		return v.data[addr-v.base : addr-v.base+n], nil
	}
	if addr < v.whole.start || addr+n > v.whole.end {
		return nil, fmt.Errorf("%d bytes at %#x of process %d: %w", n, addr, v.m.p.PID(), errUnreadable)
	}
	if err := v.fill(addr); err != nil {
		return nil, err
	}
	return v.data[addr-v.base : addr-v.base+n], nil
}

// refresh forgets what was read.
func (v *view) refresh() { v.data = nil }

// fill reads the window that begins with the page of addr.
func (v *view) fill(addr uint64) error {
	v.base = max(addr&^(pageBytes-1), v.whole.start)
	end := min(v.base+viewBytes, v.whole.end)
	v.data = v.buf[:end-v.base]
	clear(v.data)
	if v.next >= len(v.runs) || v.next > 0 && v.runs[v.next-1].end > v.base {
		v.next = 0
	}
	for v.next < len(v.runs) && v.runs[v.next].end <= v.base {
		v.next++
	}
	for _, run := range v.runs[v.next:] {
		from, to := max(run.start, v.base), min(run.end, end)
		if from >= to {
			break
		}
		part := v.data[from-v.base : to-v.base]
		n, err := v.m.readv(part, []unix.RemoteIovec{{Base: uintptr(from), Len: len(part)}})
		if err != nil || n != len(part) {
			v.data = nil
			return fmt.Errorf("read %d bytes at %#x: %w", len(part), from, errors.Join(err, errUnreadable))
		}
	}
	return nil
}

func word(b []byte, i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }

// hash sums up memory, of any length, quickly.
func (v *view) hash(s span) (sum uint64, err error) {
	sum = s.end - s.start
	for at := s.start; at+8 <= s.end; {
		n := min(s.end-at, viewBytes-pageBytes) &^ 7
		// A stretch without pages sums up to itself.
		if gap := v.gap(at); gap > at {
			at = min(gap&^7, s.end)
			sum = sum*mixer + at
			continue
		}
		b, err := v.at(at, n)
		if err != nil {
			return 0, err
		}
		sum = sum*mixer + hashBytes(b)
		at += n
	}
	return sum, nil
}

// gap returns the end of the pages that are not there from addr on, or addr.
func (v *view) gap(addr uint64) uint64 {
	lo, hi := 0, len(v.runs)
	for lo < hi {
		if mid := (lo + hi) / 2; v.runs[mid].end <= addr {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	switch {
	case lo == len(v.runs):
		return v.whole.end
	case v.runs[lo].start > addr:
		return v.runs[lo].start
	}
	return addr
}

const mixer = 0x9e3779b97f4a7c15

// hashBytes sums up whole words, so that any that changes changes the sum.
func hashBytes(b []byte) uint64 {
	var x, y uint64 = 1, 2
	for len(b) >= 16 {
		x = (x ^ binary.LittleEndian.Uint64(b)) * mixer
		y = (y ^ binary.LittleEndian.Uint64(b[8:])) * mixer
		x ^= x >> 29
		y ^= y >> 31
		b = b[16:]
	}
	for len(b) >= 8 {
		x = (x ^ binary.LittleEndian.Uint64(b)) * mixer
		b = b[8:]
	}
	for _, c := range b {
		y = (y ^ uint64(c)) * mixer
	}
	return x ^ (y<<7 | y>>57)
}
