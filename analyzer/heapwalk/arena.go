package heapwalk

import (
	"errors"
	"fmt"
	"slices"

	"github.com/memtrace/memtrace/procfs"
)

// An arena is glibc's struct malloc_state. Its fields, in all versions known:
//
//	int mutex, flags, [have_fastchunks];
//	[chunk *fastbinsY[10];]                 until 2.42
//	chunk *top, *last_remainder;
//	chunk *bins[254];
//	unsigned binmap[4];
//	malloc_state *next, *next_free;
//	size_t attached_threads, system_mem, max_system_mem;
//
// The bins give it away: they are heads of doubly linked lists, and an empty
// one points to itself, that is, to two words before its two pointers, twice.
type arena struct {
	addr      uint64
	top       uint64 // the last chunk
	systemMem uint64
	flags     uint32
	main      bool
}

// A layout says where the fields of struct malloc_state are.
type layout struct{ top uint64 }

// Offsets of top in the versions known: 2.27 to 2.42, 2.26, and from 2.43 on.
var layouts = []layout{{96}, {88}, {8}, {16}}

const (
	binPairs   = 127
	fastBins   = 10
	binsBytes  = 16 * binPairs
	maxArenas  = 1 << 14
	afterBins  = 16 // binmap
	tailWords  = 5  // next, next_free, attached_threads, system_mem, max_system_mem
	tailBytes  = 8 * tailWords
	chunkAlign = 16
	minChunk   = 32
)

func (l layout) bins() uint64 { return l.top + 16 }
func (l layout) next() uint64 { return l.bins() + binsBytes + afterBins }
func (l layout) size() uint64 { return l.next() + tailBytes }

// fastbins returns the offset of fastbinsY; there may be none.
func (l layout) fastbins() (offset uint64, ok bool) {
	if l.top < 8*fastBins {
		return 0, false
	}
	return l.top - 8*fastBins, true
}

// allocator is what is known of glibc's allocator in a process.
type allocator struct {
	layout
	arenas []arena // the main arena first
	data   span    // the mapping that the main arena lies in
	params *params // nil: not found
}

// ErrNoArena means that the process has no heap of glibc's malloc.
var ErrNoArena = errors.New("it has no heap of glibc's malloc")

// maxData bounds how much static data is searched for an arena.
const maxData = 1 << 30

// findArenas searches the data of all files that the process has mapped. A
// process without any allocation so far has no arena that could be found.
func (m *memory) findArenas() (a *allocator, err error) {
	m.budget.within(searchCalls, func() { a, err = m.searchArenas() })
	return a, err
}

func (m *memory) searchArenas() (*allocator, error) {
	budget := uint64(maxData)
	for i := range m.maps {
		v := &m.maps[i]
		if !m.staticData(i) || v.end-v.start > budget {
			continue
		}
		budget -= v.end - v.start
		a, err := m.arenasIn(v.span)
		if a != nil || err != nil {
			return a, err
		}
	}
	return nil, fmt.Errorf("look for the heap of process %d: %w", m.p.PID(), ErrNoArena)
}

// staticData tells a file's writable data, and the anonymous rest of it (.bss).
func (m *memory) staticData(i int) bool {
	v := &m.maps[i]
	if v.perms&(procfs.Read|procfs.Write|procfs.Shared) != procfs.Read|procfs.Write {
		return false
	}
	if v.kind == procfs.KindFile {
		return true
	}
	return v.kind == procfs.KindAnon && i > 0 && m.maps[i-1].end == v.start && m.maps[i-1].inode != 0
}

// arenasIn searches a mapping for the main arena. What it returns is nil where
// there is none.
func (m *memory) arenasIn(s span) (*allocator, error) {
	v, err := m.view(s)
	if err != nil {
		return nil, err
	}
	ahead, err := m.view(s) // one step in front of v, so that both read all memory once
	if err != nil {
		return nil, err
	}
	tried := newTried()
	for _, run := range v.runs {
		for at := max(run.start, s.start); at+16 <= min(run.end, s.end); at += 8 {
			b, err := v.at(at, 16)
			if err != nil {
				break // what went away is no arena in use
			}
			if word(b, 0) != at-16 || word(b, 1) != at-16 {
				continue
			}
			if a := m.mainArenaAround(ahead, at, tried); a != nil {
				return a, m.readArenas(a)
			}
		}
	}
	return nil, nil
}

// tried says up to where arenas were looked for, by layout and by whether the address is
// an odd multiple of eight: empty bins that follow one another stand for the same
// arenas, but for one, and memory may be full of what looks like such.
type tried [][2]uint64

func newTried() tried { return make(tried, len(layouts)) }

// mainArenaAround takes the empty bin at addr for the k-th and looks whether
// that makes a main arena, for all k. Addresses must ascend from call to call.
func (m *memory) mainArenaAround(v *view, addr uint64, t tried) *allocator {
	s := v.whole
	for i, l := range layouts {
		first := addr - l.bins()
		for k := range uint64(binPairs) {
			start := first - 16*k
			if start < s.start || start > addr || start <= t[i][start/8%2] {
				break
			}
			if start+l.size() > s.end {
				continue
			}
			a := &allocator{layout: l, data: s, arenas: []arena{{addr: start, main: true}}}
			if !m.mayClose(v, start, a) {
				continue
			}
			if m.listCloses(a) {
				return a
			}
			m.changing = true
		}
		t[i][first/8%2] = first
	}
	return nil
}

// mayClose looks at the list of arenas' first link, in what was read already:
// it leads back at once, or to a thread's arena behind a header.
func (m *memory) mayClose(v *view, start uint64, a *allocator) bool {
	b, err := v.at(start+a.next(), 8)
	if err != nil {
		return false
	}
	next := word(b, 0)
	return next == start || m.mayBeThreadArena(next)
}

// listCloses follows the circular list of arenas from the main one, which is
// alone in a program that never used threads.
func (m *memory) listCloses(a *allocator) bool {
	start := a.arenas[0].addr
	if !m.hasBins(start + a.bins()) {
		return false
	}
	next := m.word(start + a.next())
	for next != start {
		if len(a.arenas) >= maxArenas || !m.isThreadArena(next) {
			return false
		}
		a.arenas = append(a.arenas, arena{addr: next})
		next = m.word(next + a.next())
	}
	for _, x := range a.arenas[1:] {
		if !m.hasBins(x.addr + a.bins()) {
			return false
		}
	}
	return true
}

// heapHeaders are the sizes of struct heap_info, which stands in front of a
// thread's arena: until 2.34, and since.
var heapHeaders = []uint64{32, 48}

// isThreadArena tells an arena that lies in a heap of its own, whose header
// points to it.
func (m *memory) isThreadArena(addr uint64) bool {
	return m.mayBeThreadArena(addr) && m.headerBefore(addr) != 0
}

// heapAlign is what heaps of threads' arenas are at a multiple of, at least: their
// size is a power of two, 64 MiB as a rule.
const heapAlign = 1 << 20

// mayBeThreadArena tells by its address alone whether there may be one.
func (m *memory) mayBeThreadArena(addr uint64) bool {
	if !slices.Contains(heapHeaders, addr%heapAlign) {
		return false
	}
	v := m.mappingOf(addr)
	return v != nil && v.anonymous()
}

// headerBefore returns the size of the heap_info in front of an arena, or 0.
func (m *memory) headerBefore(addr uint64) uint64 {
	for _, size := range heapHeaders {
		if base := addr - size; base%pageBytes == 0 && m.word(base) == addr {
			return size
		}
	}
	return 0
}

// hasBins checks all bins: empty, or with pointers to chunks.
func (m *memory) hasBins(addr uint64) bool {
	var w [2 * binPairs]uint64
	if m.words(addr, w[:]) != nil {
		return false
	}
	for i := range binPairs {
		first, last := w[2*i], w[2*i+1]
		self := addr + 16*uint64(i) - 16
		if (first == self) != (last == self) || first%8 != 0 || last%8 != 0 || first == 0 || last == 0 {
			return false
		}
	}
	return true
}

// readArenas reads the fields of all arenas.
func (m *memory) readArenas(a *allocator) error {
	for i := range a.arenas {
		x := &a.arenas[i]
		var head [1]uint64
		var tail [tailWords]uint64
		if err := errors.Join(m.words(x.addr, head[:]), m.words(x.addr+a.next(), tail[:])); err != nil {
			return err
		}
		x.flags = uint32(head[0] >> 32)
		x.top = m.word(x.addr + a.top)
		x.systemMem = tail[3]
	}
	return nil
}

// unused reports whether nothing was ever allocated from the arena: its top is
// then the unsorted bin.
func (a *allocator) unused(x *arena) bool { return x.top == x.addr+a.top || x.top == 0 }
