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
// the program's has been seen, what lies between two blocks in one mapping is
// an allocator's, too. Below the first block and above the last one of a
// mapping may be something else, as the kernel makes one mapping of several
// that adjoin: data of a library below, the loader's memory above.
func (c *scan) ownMemory() zones {
	j := c.space.findJemalloc(&c.mem, &c.index)
	own := append([]zone(nil), j.base...)
	if !c.options.AllSeen {
		return joined(append(own, j.stacks...))
	}
	own = append(own, j.extents...)
	if c.options.Mapped != nil {
		var between []zone
		for i := range c.space.maps {
			between = append(between, c.space.betweenBlocks(&c.space.maps[i], &c.index))
		}
		var mapped []zone
		for start, end := range c.options.Mapped {
			in := c.index.span(start, end)
			mapped = append(mapped, zone{start, max(in.start, start)}, zone{max(in.end, start), end})
		}
		own = append(own, joined(between).without(joined(mapped))...)
	}
	return joined(own)
}

// betweenBlocks is what lies in a mapping from its first block to its last one.
func (s *space) betweenBlocks(v *vma, x *index) zone {
	if !v.read || v.kind != procfs.KindAnon || v.perms&procfs.Shared != 0 {
		return zone{}
	}
	return x.span(v.start, v.end)
}

// span is from the first block that starts between two addresses, at the
// beginnings of pages, to the last one; nothing where there are not two.
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
