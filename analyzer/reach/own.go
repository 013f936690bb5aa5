package reach

import (
	"math/bits"

	"github.com/memtrace/memtrace/procfs"
)

// ownMemory finds memory outside of blocks that is the allocators' own: what
// they keep there are records of blocks, and what was freed. It holds none of
// the program's pointers, and is no root.
//
// jemalloc says itself what is its own. Where every block and every mapping of
// the program's has been seen, what else lies between two blocks in mappings that
// adjoin is an allocator's, too. Below the first block and above the last one may
// be something else: data of a library below, the loader's memory above.
func (c *scan) ownMemory() zones {
	j := c.space.findJemalloc(&c.mem, &c.index)
	own := append([]zone(nil), j.base...)
	if !c.options.AllSeen {
		return joined(append(own, j.stacks...))
	}
	own = append(own, j.extents...)
	if c.options.Mapped != nil {
		var between []zone
		for z := range c.space.anonymous(procfs.KindAnon) {
			between = append(between, c.between(z))
		}
		var mapped []zone
		for start, end := range c.options.Mapped {
			in := c.between(zone{start, end})
			mapped = append(mapped, zone{start, max(in.start, start)}, zone{max(in.end, start), end})
		}
		own = append(own, joined(between).without(joined(mapped))...)
	}
	return joined(own)
}

// amongBlocks is what lies between the blocks of all mappings that adjoin.
func (c *scan) amongBlocks() zones {
	var all []zone
	for _, kind := range []procfs.Kind{procfs.KindAnon, procfs.KindHeap} {
		for z := range c.space.anonymous(kind) {
			all = append(all, c.between(z))
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

// Of mimalloc's, all of these lie within one mapping of its own.
const (
	mimallocSlice   = 64 << 10 // begins with the record of its blocks (version 3)
	mimallocSegment = 32 << 20 // begins with those of all its slices (version 2)
)

// between is what lies in a zone from its first block to its last one. mimalloc
// has records in front of blocks that say where the first one is.
func (c *scan) between(z zone) zone {
	in := c.index.span(z.start, z.end)
	if !c.options.Mimalloc || in.start == 0 {
		return in
	}
	unit := uint64(mimallocSegment)
	if below := c.space.mappingOf(z.start - 1); below != nil && below.inode != 0 {
		unit = mimallocSlice // what is in front may be data of that library
	}
	in.start = max(z.start, in.start&^(unit-1))
	return in
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
