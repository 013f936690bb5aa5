//go:build linux && !viewer

package reach

import (
	"math/bits"
	"os"
	"slices"
	"unsafe"

	"github.com/memtrace/memtrace/procfs"
)

// ownMemory finds memory outside of blocks that is the allocators' own: what
// they keep there are records of blocks, and what was freed. It holds none of
// the program's pointers, and is no root.
//
// jemalloc says itself what is its own; a library that is nothing but an allocator
// has its own data. Where every block and every mapping of the program's has been
// seen, those parts of the address space are, too, that others give to nobody else.
func (c *scan) ownMemory() zones {
	j := c.space.findJemalloc(&c.mem, &c.index)
	c.marker.base = joined(j.base)
	own := slices.Concat(j.base, c.space.allocatorData(&c.mem))
	if !c.options.AllSeen || c.options.Headers {
		return joined(append(own, j.stacks...))
	}
	if c.options.Mapped == nil {
		return joined(append(own, j.extents...))
	}
	// jemalloc's records tell of memory that it has given back, too.
	return joined(append(own, joined(append(c.reserved(), j.extents...)).without(c.mapped())...))
}

// reserved is what mimalloc and scudo have reserved for blocks alone.
func (c *scan) reserved() (out []zone) {
	if c.options.Scudo {
		out = c.space.enclosed(&c.index)
	}
	if c.options.Mimalloc {
		for z := range c.space.anonymous(procfs.KindAnon) {
			out = append(out, c.segments(z)...)
		}
	}
	return out
}

// mapped is what the program mapped itself, but for what it gave to an allocator; nil where that is not known.
func (c *scan) mapped() zones {
	if c.options.Mapped == nil {
		return nil
	}
	var out []zone
	for start, end := range c.options.Mapped {
		in := zone{start, start}
		switch {
		case c.options.Mimalloc:
			in = c.withRecords(zone{start, end})
		case c.index.span(start, end).start != 0:
			in.end = end
		}
		out = append(out, zone{start, max(in.start, start)}, zone{max(in.end, start), end})
	}
	return joined(out)
}

// Of mimalloc's, all of these lie within one mapping of its own.
const (
	mimallocSlice   = 64 << 10 // begins with the record of its blocks (version 3)
	mimallocSegment = 32 << 20 // begins with those of all its slices (version 2)
)

// segments are those of mimalloc's in a zone that have blocks, from the first
// block to the last one of the zone.
func (c *scan) segments(z zone) (out []zone) {
	in := c.withRecords(z)
	for at := in.start; at < in.end; {
		next := min(at&^(mimallocSegment-1)+mimallocSegment, in.end)
		if c.index.span(at&^(pageBytes-1), next).start != 0 {
			out = append(out, zone{at, next})
		}
		at = next
	}
	return out
}

// withRecords is what lies in a zone from its first block to its last one, and the
// records that mimalloc has in front, which say where the first block is.
func (c *scan) withRecords(z zone) zone {
	in := c.index.span(z.start, z.end)
	if in.start == 0 {
		return in
	}
	unit := uint64(mimallocSegment)
	if below := c.space.mappingOf(z.start - 1); below != nil && below.inode != 0 {
		unit = mimallocSlice // what is in front may be data of that library
	}
	in.start = max(z.start, in.start&^(unit-1))
	return in
}

// Scudo reserves a region for each class, one after the other, in an order of each
// process's own (primary64.h; seen with LLVM 19). The memory of a class begins 1 to
// 16 pages behind the start of its region.
const (
	classReserve = 64 << 20 // the least that lies between the memory of two classes
	classRegion  = 1 << 32
	classGap     = 16 // pages
)

// enclosed are mappings that lie between reservations as scudo's classes do,
// among those that have blocks.
func (s *space) enclosed(x *index) (out []zone) {
	for i := range s.maps {
		if !s.isBetween(i, classReserve) {
			continue
		}
		if s.isFirstClass(i-2, i) {
			out = append(out, zone{s.maps[i-2].start, s.maps[i-2].end})
		}
		out = append(out, zone{s.maps[i].start, s.maps[i].end})
	}
	if len(out) < 2 || x.span(out[0].start, out[len(out)-1].end).start == 0 {
		return nil
	}
	return out
}

// isBetween tells a mapping with at least so much reserved right below it, and a large reservation above.
func (s *space) isBetween(i int, least uint64) bool {
	if i < 1 || i+1 >= len(s.maps) {
		return false
	}
	isReserved := func(v *vma, least uint64) bool {
		return v.kind == procfs.KindAnon && v.perms&(procfs.Read|procfs.Write|procfs.Exec) == 0 && v.end-v.start >= least
	}
	below, v, above := &s.maps[i-1], &s.maps[i], &s.maps[i+1]
	return v.read && v.kind == procfs.KindAnon && below.end == v.start && v.end == above.start &&
		isReserved(below, least) && isReserved(above, classReserve)
}

// isFirstClass tells the memory of the class whose region is the lowest by that of the next
// one: below it is nothing but the gap. A thread's stack lies just so between its guard
// and what was reserved before it, but not whole regions below a class's memory.
func (s *space) isFirstClass(first, next int) bool {
	if !s.isBetween(first, pageBytes) || s.isBetween(first, classReserve) {
		return false
	}
	gap := classGap * uint64(os.Getpagesize())
	apart := s.maps[next].start - s.maps[first].start
	return apart+gap >= classRegion && (apart+gap)%classRegion < 2*gap
}

// inRecord reports whether a pointer to the start of block i stands in an allocator's own record.
func (w *worker) inRecord(i uint32, start uint64, b *buffer, p unsafe.Pointer) bool {
	return w.mimalloc && w.inPageRecord(i, start, b, p) || w.scudo && w.inGuardedRecord(i, b, p) ||
		w.inLeafCache(start, b, p)
}

// allocatorData is the data of libraries that hold nothing but an allocator, as
// their headers have it.
func (s *space) allocatorData(mem *memory) (out []zone) {
	for i := range s.maps {
		v := &s.maps[i]
		if !v.allocator || v.offset != 0 {
			continue
		}
		var words [128]uint64
		if mem.words(v.start, words[:]) == nil {
			out = append(out, writable(v.start, words[:])...)
		}
	}
	return out
}

// writable are the segments of an ELF file that can be written, by the file's first
// words, as it lies from base on. Its segments do not reach beyond 1 GiB.
func writable(base uint64, w []uint64) (out []zone) {
	const (
		magic    = 0x464c457f
		load     = 1
		write    = 2 << 32 // flags are the upper half of the first word
		most     = 1 << 30
		phWords  = 7
		phOffset = 4
	)
	if uint32(w[0]) != magic || w[phOffset]%8 != 0 {
		return nil
	}
	first, count := w[phOffset]/8, w[7]&0xffff
	for ; count > 0 && first+phWords <= uint64(len(w)); count-- {
		p := w[first : first+phWords]
		if uint32(p[0]) == load && p[0]&write != 0 && p[2] < most && p[5] < most {
			out = append(out, zone{base + p[2], base + p[2] + p[5]})
		}
		first += phWords
	}
	return out
}

// amongBlocks is what lies between the blocks of all mappings that adjoin.
func (c *scan) amongBlocks() zones {
	var all []zone
	for _, kind := range []procfs.Kind{procfs.KindAnon, procfs.KindHeap} {
		for z := range c.space.anonymous(kind) {
			all = append(all, c.index.span(z.start, z.end))
		}
	}
	return joined(all)
}

// anonymous yields private memory of a kind, of any protection, adjoining mappings as one.
func (s *space) anonymous(kind procfs.Kind) func(yield func(z zone) bool) {
	return func(yield func(z zone) bool) {
		var z zone
		for i := range s.maps {
			v := &s.maps[i]
			if v.kind != kind || v.perms&procfs.Shared != 0 {
				continue
			}
			if v.start != z.end {
				if z.end != 0 && !yield(z) {
					return
				}
				z.start = v.start
			}
			z.end = v.end
		}
		if z.end != 0 {
			yield(z)
		}
	}
}

// span is from the first block that starts between two addresses, at the
// beginnings of pages, to the start of the last one.
func (x *index) span(start, end uint64) (z zone) {
	for win := start &^ (winBytes - 1); win < end; win += winBytes {
		if at, ok := x.edge(start, end, win, false); ok {
			z = zone{at, at}
			break
		}
	}
	for win := (end - 1) &^ (winBytes - 1); z.start != 0 && win+winBytes > z.start; win -= winBytes {
		if at, ok := x.edge(start, end, win, true); ok {
			z.end = at
			break
		}
	}
	return z
}

// edge is the first block between two addresses that starts in a window, or the last one.
func (x *index) edge(start, end, win uint64, last bool) (at uint64, ok bool) {
	if !x.mayStart(win) {
		return 0, false
	}
	for k := range uint64(winPages) {
		page := win + k<<pageShift
		if last {
			page = win + (winPages-1-k)<<pageShift
		}
		if p := x.pageAt(page); p != nil && page >= start && page < end {
			return page + x.pages[p.entry].edge(last), true
		}
	}
	return 0, false
}

// edge is where the first block starts in a page that has some, or the last one.
func (p *page) edge(last bool) uint64 {
	for k := range p {
		w := k
		if last {
			w = len(p) - 1 - k
		}
		switch {
		case p[w] == 0:
		case last:
			return uint64(w)<<9 + uint64(63-bits.LeadingZeros64(p[w]))<<3
		default:
			return uint64(w)<<9 + uint64(bits.TrailingZeros64(p[w]))<<3
		}
	}
	return 0
}
