package heapwalk

import (
	"cmp"
	"slices"

	"github.com/memtrace/memtrace/procfs"
)

// A region is memory in which chunk follows on chunk.
type region struct {
	span
	arena   *arena
	hasTop  bool   // the arena's top chunk ends it; else a fencepost does
	certain bool   // a chunk begins at its start
	header  uint64 // bytes in front of it that glibc counts as in use
}

const maxHeaps = 1 << 16 // of one arena

// regions lists those of all arenas, ascending.
func (m *memory) regions(a *allocator) (out []region) {
	for i := range a.arenas {
		x := &a.arenas[i]
		switch {
		case a.unused(x):
		case x.main:
			out = append(out, m.mainRegions(a, x)...)
		default:
			out = append(out, m.threadRegions(a, x)...)
		}
	}
	slices.SortFunc(out, func(x, y region) int { return cmp.Compare(x.start, y.start) })
	return apart(out)
}

// apart leaves out regions, which ascend, that overlap one before them.
func apart(regions []region) []region {
	end := uint64(0)
	return slices.DeleteFunc(regions, func(r region) bool {
		if r.start < end {
			return true
		}
		end = r.end
		return false
	})
}

// mappedFrom returns where what is mapped without a gap from addr on ends.
func (m *memory) mappedFrom(addr uint64) uint64 {
	end := addr
	for v := m.mappingOf(addr); v != nil && end-addr < maxHeapBytes; v = m.mappingOf(end) {
		end = v.end
	}
	return end
}

// mainRegions are what the main arena has from brk(2), and, where that could
// not grow, the mapping that its top is in now.
func (m *memory) mainRegions(a *allocator, x *arena) (out []region) {
	heap := m.brk()
	if heap.end > heap.start {
		start := heap.start
		certain := a.params != nil && a.params.sbrkBase != 0
		if certain {
			start = (a.params.sbrkBase + chunkAlign - 1) &^ (chunkAlign - 1)
		}
		if start < heap.end {
			r := region{span{start, heap.end}, x, heap.has(x.top), certain, 0}
			if certain {
				r.header = start - a.params.sbrkBase
			}
			out = append(out, r)
		}
	}
	if !heap.has(x.top) {
		if v := m.mappingOf(x.top); v != nil && v.anonymous() {
			end := x.top + m.word(x.top+8)&^7
			if end > x.top && end <= v.end {
				out = append(out, region{span{v.start, end}, x, true, false, 0})
			}
		}
	}
	return out
}

func (s span) has(addr uint64) bool { return addr >= s.start && addr < s.end }

// brk returns all of [heap], which mprotect may have split.
func (m *memory) brk() (s span) {
	for i := range m.maps {
		v := &m.maps[i]
		switch {
		case v.kind != procfs.KindHeap:
		case s.end == 0:
			s = v.span
		case v.start == s.end:
			s.end = v.end
		}
	}
	return s
}

// threadRegions are a thread arena's heaps, each with a header in front:
//
//	struct heap_info {malloc_state *ar_ptr; heap_info *prev; size_t size, mprotect_size; …}
func (m *memory) threadRegions(a *allocator, x *arena) (out []region) {
	header := m.headerBefore(x.addr)
	own := x.addr - header
	heap := m.heapOf(x)
	for n := 0; heap != 0 && n < maxHeaps && m.heaps < maxAllHeaps; n++ {
		m.heaps++
		var info [3]uint64
		if m.words(heap, info[:]) != nil || info[0] != x.addr {
			return out
		}
		r := region{span{heap + header, heap + info[2]}, x, heap <= x.top && x.top < heap+info[2], true, 0}
		if heap == own {
			r.start = x.addr + a.size()
		}
		r.start = (r.start + chunkAlign - 1) &^ (chunkAlign - 1)
		r.header = r.start - heap
		if r.start < r.end && r.end-heap <= maxHeapBytes && r.end <= m.mappedFrom(heap) {
			out = append(out, r)
		}
		heap = info[1]
	}
	return out
}

// heapOf returns the heap that an arena's top is in: at a multiple of 64 MiB,
// or of another power of two where huge pages are used.
func (m *memory) heapOf(x *arena) uint64 {
	for _, shift := range []int{26, 23, 25, 24, 22, 21, 20, 27, 28, 29, 30, 31, 32} {
		if base := x.top &^ (1<<shift - 1); m.word(base) == x.addr {
			return base
		}
	}
	return 0
}
