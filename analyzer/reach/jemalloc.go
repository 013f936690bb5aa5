//go:build linux && !viewer

package reach

import (
	"math/bits"
	"slices"

	"github.com/memtrace/memtrace/procfs"
)

// jemalloc (5.0 and later) keeps its records apart from the blocks. They are
// found by what they say of themselves, so that it does not matter whether it
// is a library, or a part of the program under any name, or since when it is traced:
//
//	base blocks  (base.c) hold all its records: {size, next, extent}, at a
//	             multiple of 2 MiB. The extent is what is left of the block:
//	             {bits, addr, size}, so that addr+size is the block's end.
//	extents      (edata.h, extent_structs.h), 128 bytes each, in base blocks:
//	             what all its memory is, in use or free, by {bits, addr, size | serial number}
//	thread cache (cache_bin.h) in the thread's variables: stacks of free blocks,
//	             one a size. What was taken from them stays there until the next one comes.
type jemalloc struct {
	base    zones
	extents zones
	stacks  zones
}

const (
	baseUnit    = 2 << 20
	baseHeader  = 16 // in front of the extent of a base block, at the least
	recordAlign = 64
	// maxRecords bounds the memory that is searched for records of extents.
	maxRecords = 1 << 30
)

// findJemalloc looks for its records.
func (s *space) findJemalloc(mem *memory, x *index) (j jemalloc) {
	var used []zone
	var all []zone
	for i := range s.windows {
		w := &s.windows[i]
		if w.addr%baseUnit != 0 || w.present&1 == 0 {
			continue
		}
		if _, _, ok := x.find(w.addr); ok {
			continue
		}
		if z, left := s.baseBlock(mem, w.addr); z.end != 0 {
			all, used = append(all, z), append(used, zone{z.start, left})
		}
	}
	j.base = joined(all)
	if len(j.base) == 0 {
		return j
	}
	j.extents = s.findExtents(mem, joined(used))
	if !x.startsIn(j.extents) {
		return jemalloc{} // something else looks like a base block: an arena of the program's own
	}
	j.stacks = s.findCacheStacks(mem, j.base, j.extents)
	return j
}

// startsIn reports whether a block starts in one of the zones.
func (x *index) startsIn(zones zones) bool {
	return slices.ContainsFunc(zones, func(z zone) bool { return x.span(z.start, z.end).start != 0 })
}

// baseBlock tells a base block, and from where on it is not used yet.
func (s *space) baseBlock(mem *memory, addr uint64) (z zone, left uint64) {
	var w [32]uint64
	if !s.isAnon(addr, addr+pageBytes) || mem.words(addr, w[:]) != nil {
		return zone{}, 0
	}
	size, next := w[0], w[1]
	if size == 0 || size%baseUnit != 0 || size >= 1<<addrBits || next%baseUnit != 0 || next >= 1<<addrBits || !s.isAnon(addr, addr+size) {
		return zone{}, 0
	}
	for _, at := range []uint64{baseHeader, 64, 128} { // by how an extent is aligned
		from, rest := w[at/8+1], w[at/8+2]
		if from > addr+at && from <= addr+size && from+rest == addr+size {
			return zone{addr, addr + size}, from
		}
	}
	return zone{}, 0
}

// isAnon reports whether all of a range is private anonymous memory. Of words that the
// target wrote it is asked for each, so it must not go through the mappings.
func (s *space) isAnon(start, end uint64) bool {
	if s.anon == nil {
		for _, kind := range []procfs.Kind{procfs.KindAnon, procfs.KindHeap} {
			for z := range s.anonymous(kind) {
				s.anon = append(s.anon, z)
			}
		}
		s.anon = joined(s.anon)
	}
	in := s.anon.from(start)
	return start <= end && len(in) > 0 && in[0].start <= start && end <= in[0].end
}

// An extentLayout says where an extent's bits have the number of its size.
type extentLayout uint

// extentLayouts are those of jemalloc 5.3 and of 5.0 to 5.2.
var extentLayouts = [...]extentLayout{20, 18}

// findExtents reads the records of extents. Which layout they have their own
// number tells: words of the other one make no sense.
func (s *space) findExtents(mem *memory, records zones) zones {
	var found [len(extentLayouts)][]zone
	var room uint64 = maxRecords
	s.eachWord(mem, records, &room, func(w []uint64) {
		for at := 0; at+3 <= len(w); at += recordAlign / 8 {
			for i, layout := range extentLayouts {
				if z := layout.extent(w[at], w[at+1], w[at+2]); z.end != 0 && s.isAnon(z.start, z.end) {
					found[i] = append(found[i], z)
				}
			}
		}
	})
	best := 0
	for i := range found {
		if len(found[i]) > len(found[best]) {
			best = i
		}
	}
	return joined(found[best])
}

// extent takes three words for the first ones of an extent; a zone without an
// end: they are none. Of memory in use, its size must be that of its class.
func (l extentLayout) extent(word, addr, sized uint64) zone {
	const (
		slab       = 1 << 12
		maxSlab    = 1 << 20
		classes    = 235 // of all sizes; 232 where a page has 4 KiB
		fewClasses = 190
		usedBits   = 46
	)
	start, size, class := addr&^(pageBytes-1), sized&^(pageBytes-1), word>>l&0xff
	if size == 0 || addr%recordAlign != 0 || start == 0 || start >= 1<<addrBits || size >= 1<<addrBits || word>>usedBits != 0 {
		return zone{}
	}
	switch {
	case word&slab != 0:
		if addr != start || size > maxSlab || class >= 40 {
			return zone{}
		}
	case class >= fewClasses && class <= classes: // free
	case class >= fewClasses || size != classSize(class) && size != classSize(class)+pageBytes:
		return zone{}
	}
	return zone{start, start + size}
}

// classSize is the size of a class: four classes a doubling from 128 bytes on.
func classSize(class uint64) uint64 {
	if class < 8 {
		return 0 // of slabs alone
	}
	double, step := (class-8)/4, (class-8)%4
	return (4 + step) << (5 + double)
}

// eachWord reads those pages of zones that are there, as far as there is room
// for so many bytes. fn gets 2 KiB and more at once, from a multiple of that.
func (s *space) eachWord(mem *memory, in zones, room *uint64, fn func(w []uint64)) {
	b, err := newBuffer()
	if err != nil {
		return
	}
	defer b.close()
	for _, z := range in {
		for at := z.start; at < z.end && *room >= winBytes; {
			base, to := at&^(winBytes-1), min(z.end, at&^(winBytes-1)+winBytes)
			if w := s.at(at); w != nil {
				b.fill(mem, w, pageMask(at-base, to-base))
				b.runs(at-base, to-base, fn)
				*room -= winBytes
			}
			at = to
		}
	}
}

// runs yields the words between two offsets into a buffer, by runs of pages
// that were read.
func (b *buffer) runs(from, to uint64, fn func(w []uint64)) {
	for rest := b.pages & pageMask(from, to); rest != 0; {
		first := bits.TrailingZeros64(rest)
		length := bits.TrailingZeros64(^(rest >> first))
		rest &^= pageMask(uint64(first)<<pageShift, uint64(first+length)<<pageShift)
		lo, hi := max(from, uint64(first)<<pageShift), min(to, uint64(first+length)<<pageShift)
		if words := b.words(lo, hi); len(words) > 0 {
			fn(words)
		}
	}
}
