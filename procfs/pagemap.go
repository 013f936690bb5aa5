//go:build linux && !viewer

package procfs

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// PageEntry is the kernel's 64-bit word about one page of address space
// (Documentation/admin-guide/mm/pagemap.rst).
type PageEntry uint64

const (
	EntrySoftDirty PageEntry = 1 << 55
	EntryExclusive PageEntry = 1 << 56 // mapped once only; since Linux 4.2
	EntryWP        PageEntry = 1 << 57 // write-protected by userfaultfd; since 5.13
	EntryGuard     PageEntry = 1 << 58 // guard region; since 6.15
	EntryFile      PageEntry = 1 << 61 // of a file or shmem
	EntrySwapped   PageEntry = 1 << 62 // in swap, or being migrated
	EntryPresent   PageEntry = 1 << 63
)

// Frame returns the page's frame number; zero without CAP_SYS_ADMIN, and
// where the page isn't present.
func (e PageEntry) Frame() uint64 {
	if e&EntryPresent == 0 {
		return 0
	}
	return uint64(e) & (1<<55 - 1)
}

// PageState says where a page is.
type PageState uint8

const (
	// PagePresent: in memory, and counted in RSS. Where page states come from the
	// file rather than from PAGEMAP_SCAN, the zero page, which a read of untouched
	// memory maps and which no RSS counts, is PagePresent too if it is a huge one,
	// or without CAP_SYS_ADMIN.
	PagePresent PageState = 1 << iota
	// PageSwapped: written to swap. Such a page is not PagePresent.
	PageSwapped
)

// Pagemap reads the page states of an address space, that which the process
// had when the Pagemap was opened: after exit or exec there is ErrGone.
type Pagemap struct {
	p       *Process
	fd      int
	noScan  bool
	longest time.Duration
	around  func(call func() (int, error)) (int, error)
}

// OpenPagemap opens /proc/PID/pagemap. The caller closes the Pagemap.
func (p *Process) OpenPagemap() (*Pagemap, error) {
	m, err := p.openPagemap()
	if errors.Is(err, ErrGone) && p.adoptThread() {
		return p.openPagemap()
	}
	return m, err
}

func (p *Process) openPagemap() (*Pagemap, error) {
	fd, err := openAt(p.memoryDir(), filePages)
	if err != nil {
		return nil, p.wrap("open", "pagemap", err)
	}
	m := &Pagemap{p: p, fd: fd}
	var entry [1]PageEntry
	if _, err := m.Read(0, entry[:]); err != nil { // the file of a zombie can be opened
		_ = m.Close()
		return nil, err
	}
	return m, nil
}

// LongestCall is how long the longest call took that looked at pages: the
// kernel holds the process's mmap lock for no longer.
func (m *Pagemap) LongestCall() time.Duration { return m.longest }

// Around has each call that looks at pages made by fn, which may wait until the
// process's mmap lock is best asked for.
func (m *Pagemap) Around(fn func(call func() (int, error)) (int, error)) { m.around = fn }

// timed makes a call that looks at pages.
func (m *Pagemap) timed(call func() (int, error)) (int, error) {
	if m.around == nil {
		return m.measured(call)
	}
	return m.around(func() (int, error) { return m.measured(call) })
}

func (m *Pagemap) measured(call func() (int, error)) (int, error) {
	began := time.Now()
	n, err := call()
	m.longest = max(m.longest, time.Since(began))
	return n, err
}

// Close closes the file.
func (m *Pagemap) Close() error { return unix.Close(m.fd) }

// entryBytes is the size of a PageEntry.
const entryBytes = 8

// Read fills entries with those of the pages from the address start on and
// returns how many there are: fewer than len(entries) at the end of the
// address space. A single call reads at most 256 KiB (128 MiB of address
// space with 4 KiB pages).
func (m *Pagemap) Read(start uint64, entries []PageEntry) (int, error) {
	entries = entries[:min(len(entries), pieceEntries)]
	for {
		n, err := m.timed(func() (int, error) { return unix.Pread(m.fd, bytesOf(entries), int64(start/pageSize*entryBytes)) })
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return 0, m.p.wrap("read", "pagemap", err)
		case n < entryBytes && len(entries) > 0:
			return 0, m.p.wrap("read", "pagemap", m.p.whyNoMemory())
		}
		return n / entryBytes, nil
	}
}

// pieceEntries is how many entries are read at once: 256 KiB.
const pieceEntries = 32 << 10

// pieces are the buffers that Runs reads into.
var pieces = sync.Pool{New: func() any { return new([pieceEntries]PageEntry) }}

// Runs calls fn for each run of consecutive pages of one state in the range
// from start to end, ascending; pages that are neither present nor swapped
// are left out. Runs may be split at any page. It uses PAGEMAP_SCAN where the
// kernel has it (Linux 6.7), as it passes over empty page tables and huge
// pages quickly, and reads the file otherwise.
func (m *Pagemap) Runs(start, end uint64, fn func(start, end uint64, state PageState)) error {
	start, end = start/pageSize*pageSize, (end+pageSize-1)/pageSize*pageSize
	if start >= end {
		return nil
	}
	if !m.noScan {
		at, err := m.scan(start, end, fn)
		if !errors.Is(err, ErrNotSupported) {
			return err
		}
		m.noScan, start = true, at
	}
	return m.readRuns(start, end, fn)
}

// Scans reports whether page states come from PAGEMAP_SCAN, which knows the
// zero page; it is certain after the first Runs only.
func (m *Pagemap) Scans() bool { return !m.noScan }

// readRuns is Runs by reading the file.
func (m *Pagemap) readRuns(start, end uint64, fn func(start, end uint64, state PageState)) error {
	piece := pieces.Get().(*[pieceEntries]PageEntry)
	defer pieces.Put(piece)
	for start < end {
		want := min(uint64(pieceEntries), (end-start)/pageSize)
		n, err := m.Read(start, piece[:want])
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("read pagemap of process %d: %w: no entry for %#x", m.p.pid, ErrFormat, start)
		}
		entryRuns(start, piece[:n], fn)
		start += uint64(n) * pageSize
	}
	return nil
}

// entryRuns finds the runs in entries, the first of which is of the page at start.
func entryRuns(start uint64, entries []PageEntry, fn func(start, end uint64, state PageState)) {
	zero := zeroFrame()
	for i := 0; i < len(entries); {
		state, first := stateOf(entries[i], zero), i
		for i++; i < len(entries) && stateOf(entries[i], zero) == state; i++ {
		}
		if state != 0 {
			fn(start+uint64(first)*pageSize, start+uint64(i)*pageSize, state)
		}
	}
}

// stateOf takes the two top bits; a guard page and a page under migration
// count as the kernel's smaps counts them, which is by these bits too. zero is
// the zero page's frame.
func stateOf(e PageEntry, zero uint64) PageState {
	switch {
	case e&EntryPresent != 0:
		if zero != 0 && e.Frame() == zero {
			return 0
		}
		return PagePresent
	case e&EntrySwapped != 0 && e&EntryGuard == 0:
		return PageSwapped
	}
	return 0
}
