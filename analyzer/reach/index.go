package reach

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// An index finds the block that an address lies in. Blocks are numbered in the
// order of their addresses. What a pointer to a block's start needs is three
// loads, the last from one cache line that 4 KiB of heap share:
//
//	top (an entry per 2 MiB) ─▶ region (an entry per page) ─▶ page: a bit per
//	8 bytes, set where a block starts, and the number of the first of them
//
// Neither the address nor the size of a block is looked at for that; a block's
// number is the count of the bits before its own. An entry may also stand for
// a page or region in which no block starts but that one covers: see covers.
type index struct {
	area area
	base uint64 // of the first entry of top, a multiple of regionBytes
	lo   uint64 // of the first block
	hi   uint64 // first address after the last block's start region: bound of pointers
	top  []entry
	// regions and pages begin at 1, as 0 means that there is none.
	regions []region
	pages   []page
	covers  []cover // blocks that cover pages in which none starts
	order   []uint32
	sizes   []uint32          // of each block; maxSize32 stands for all above
	huge    map[uint32]uint64 // sizes of blocks that are not below 4 GiB
	count   int
	bytes   uint64
	skipped int // blocks at addresses that no allocator gives
}

const (
	pageShift   = 12
	pageBytes   = 1 << pageShift
	regionShift = 21
	regionBytes = 1 << regionShift
	regionPages = regionBytes / pageBytes
	regionWins  = regionBytes / winBytes

	maxSize32 = math.MaxUint32
	maxBlocks = 1 << 31
	// addrBits is the size of a user address space, upper bits of a word that
	// hold a tag left aside.
	addrBits = 48
	addrMask = 1<<addrBits - 1
)

// An entry is 0, the number of a region or page, or that of a cover.
type entry uint32

const coverFlag entry = 1 << 31

type region struct {
	addr  uint64
	first uint32 // number of the first block that starts here
	_     uint32
	wins  [regionWins]uint32 // number of the window + 1
	pages [regionPages]entry
}

type page struct {
	starts [8]uint64
	// before is the address of the last block that starts before the page, if
	// it reaches into it; its number is first-1.
	before uint64
	first  uint32
	_      uint32
}

type cover struct {
	addr, end uint64
	block     uint32
}

// Blocks calls yield for the live blocks of a process, in any order but the
// same one each time, until yield returns false: first address, size in bytes,
// number of the site.
type Blocks func(yield func(addr, size uint64, site uint32) bool)

// build makes the index of blocks, in three passes over them: no list of them
// is sorted, nor ever made.
func (x *index) build(blocks Blocks) error {
	x.lo = math.MaxUint64
	var last uint64
	for addr, size := range eachOf(blocks) {
		if !sane(addr, size) {
			x.skipped++
			continue
		}
		x.count++
		x.lo, last = min(x.lo, addr), max(last, addr+max(size, 1))
	}
	if x.count == 0 {
		x.lo = 0
		return nil
	}
	if x.count >= maxBlocks {
		return fmt.Errorf("index %d blocks: too many", x.count)
	}
	x.base = x.lo &^ (regionBytes - 1)
	x.hi = (last + regionBytes - 1) &^ (regionBytes - 1)
	if err := x.allocate(); err != nil {
		return err
	}
	x.setStarts(blocks)
	x.number()
	x.setSizes(blocks)
	x.cover()
	return nil
}

// eachOf yields addresses and sizes alone.
func eachOf(blocks Blocks) func(yield func(addr, size uint64) bool) {
	return func(yield func(addr, size uint64) bool) {
		blocks(func(addr, size uint64, _ uint32) bool { return yield(addr, size) })
	}
}

func sane(addr, size uint64) bool {
	return addr != 0 && addr%8 == 0 && addr < 1<<addrBits && size < 1<<addrBits-addr
}

func (x *index) allocate() (err error) {
	n := uint64(x.count)
	regions := (x.hi - x.base) >> regionShift
	if x.top, err = table[entry](&x.area, regions+1); err != nil {
		return err
	}
	if x.regions, err = table[region](&x.area, min(n, regions)+1); err != nil {
		return err
	}
	if x.pages, err = table[page](&x.area, min(n, regions*regionPages)+1); err != nil {
		return err
	}
	x.sizes, err = table[uint32](&x.area, n)
	return err
}

// setStarts sets the bit of each block.
func (x *index) setStarts(blocks Blocks) {
	regions, pages := entry(1), entry(1)
	for addr, size := range eachOf(blocks) {
		if !sane(addr, size) {
			continue
		}
		t := &x.top[(addr-x.base)>>regionShift]
		if *t == 0 {
			*t = regions
			x.regions[regions].addr = addr &^ (regionBytes - 1)
			x.order = append(x.order, uint32(regions))
			regions++
		}
		p := &x.regions[*t].pages[addr>>pageShift%regionPages]
		if *p == 0 {
			*p = pages
			pages++
		}
		x.pages[*p].starts[addr>>9%8] |= 1 << (addr >> 3 % 64)
	}
	x.regions, x.pages = x.regions[:regions], x.pages[:pages]
	slices.SortFunc(x.order, func(a, b uint32) int {
		if x.regions[a].addr < x.regions[b].addr {
			return -1
		}
		return 1
	})
}

// number numbers the blocks by their addresses.
func (x *index) number() {
	n := uint32(0)
	for _, r := range x.order {
		x.regions[r].first = n
		for _, e := range x.regions[r].pages {
			if e == 0 {
				continue
			}
			p := &x.pages[e]
			p.first = n
			for _, w := range p.starts {
				n += uint32(bits.OnesCount64(w))
			}
		}
	}
	x.count = int(n) // fewer, had an address come twice
}

func (x *index) setSizes(blocks Blocks) {
	blocks(func(addr, size uint64, _ uint32) bool {
		if !sane(addr, size) {
			return true
		}
		p := &x.pages[x.regions[x.top[(addr-x.base)>>regionShift]].pages[addr>>pageShift%regionPages]]
		i := p.number(addr)
		x.sizes[i] = uint32(min(size, maxSize32))
		x.bytes += size
		if size >= maxSize32 {
			if x.huge == nil {
				x.huge = make(map[uint32]uint64)
			}
			x.huge[i] = size
		}
		return true
	})
}

// number returns the number of the block that starts at addr, in this page.
// It has no branches, which would depend on the address and be foreseen badly.
func (p *page) number(addr uint64) uint32 {
	w := int64(addr >> 9 % 8)
	n := bits.OnesCount64(p.starts[w] & (1<<(addr>>3%64) - 1))
	for i := range p.starts {
		before := uint64((int64(i) - w) >> 63) // all ones, or zero
		n += bits.OnesCount64(p.starts[i] & before)
	}
	return p.first + uint32(n)
}

// addrOf returns the first address of block i.
func (x *index) addrOf(i uint32) uint64 {
	n, _ := slices.BinarySearchFunc(x.order, i, func(r, i uint32) int {
		if x.regions[r].first <= i {
			return -1
		}
		return 1
	})
	r := &x.regions[x.order[n-1]]
	for k, e := range r.pages {
		if e == 0 || e&coverFlag != 0 {
			continue
		}
		if p := &x.pages[e]; i-p.first < p.count() {
			addr := uint64(0)
			p.all(r.addr+uint64(k)<<pageShift, func(at uint64, number uint32) bool {
				addr = at
				return number != i
			})
			return addr
		}
	}
	return 0 // there is no such block
}

// count is the number of blocks that start in the page.
func (p *page) count() (n uint32) {
	for _, m := range p.starts {
		n += uint32(bits.OnesCount64(m))
	}
	return n
}

// size returns the size of block i in bytes.
func (x *index) size(i uint32) uint64 {
	if s := x.sizes[i]; s != maxSize32 {
		return uint64(s)
	}
	return x.huge[i]
}

// extent is the size of block i as far as pointers go: an empty block still
// has a first byte.
func (x *index) extent(i uint32) uint64 { return max(x.size(i), 1) }

// cover notes which blocks reach into which pages. A block that would overlap
// the next ends there.
func (x *index) cover() {
	var addr uint64 // of block i
	i, first := uint32(0), true
	for next, n := range x.all {
		if !first {
			x.reach(addr, min(addr+x.extent(i), next), i)
		}
		addr, i, first = next, n, false
	}
	if !first {
		x.reach(addr, addr+x.extent(i), i)
	}
}

// reach enters block i in the pages after the one it starts in.
func (x *index) reach(addr, end uint64, i uint32) {
	made := entry(0)
	cov := func() entry {
		if made == 0 {
			x.covers = append(x.covers, cover{addr, end, i})
			made = coverFlag | entry(len(x.covers)-1)
		}
		return made
	}
	for at := addr&^(pageBytes-1) + pageBytes; at < end; {
		t := &x.top[(at-x.base)>>regionShift]
		if *t == 0 || *t&coverFlag != 0 {
			*t = cov()
			at = at&^(regionBytes-1) + regionBytes
			continue
		}
		e := &x.regions[*t].pages[at>>pageShift%regionPages]
		if *e == 0 {
			*e = cov()
		} else if *e&coverFlag == 0 {
			x.pages[*e].before = addr
		}
		at += pageBytes
	}
}

// all yields the blocks' addresses and numbers, ascending.
func (x *index) all(yield func(addr uint64, i uint32) bool) {
	for _, r := range x.order {
		reg := &x.regions[r]
		for k, e := range reg.pages {
			if e == 0 || e&coverFlag != 0 {
				continue
			}
			p := &x.pages[e]
			if !p.all(reg.addr+uint64(k)<<pageShift, yield) {
				return
			}
		}
	}
}

// all yields the blocks that start in the page at base.
func (p *page) all(base uint64, yield func(addr uint64, i uint32) bool) bool {
	n := p.first
	for w, m := range p.starts {
		for ; m != 0; m &= m - 1 {
			if !yield(base+uint64(w)<<9+uint64(bits.TrailingZeros64(m))<<3, n) {
				return false
			}
			n++
		}
	}
	return true
}

// pageAt returns the page in which blocks start, or nil.
func (x *index) pageAt(addr uint64) *page {
	if addr < x.base || addr >= x.hi {
		return nil
	}
	t := x.top[(addr-x.base)>>regionShift]
	if t == 0 || t&coverFlag != 0 {
		return nil
	}
	e := x.regions[t].pages[addr>>pageShift%regionPages]
	if e == 0 || e&coverFlag != 0 {
		return nil
	}
	return &x.pages[e]
}

// find returns the block that addr lies in, and its first address.
func (x *index) find(addr uint64) (i uint32, start uint64, ok bool) {
	if addr < x.base || addr >= x.hi {
		return 0, 0, false
	}
	e := x.top[(addr-x.base)>>regionShift]
	if e != 0 && e&coverFlag == 0 {
		e = x.regions[e].pages[addr>>pageShift%regionPages]
	}
	switch {
	case e == 0:
		return 0, 0, false
	case e&coverFlag != 0:
		c := &x.covers[e&^coverFlag]
		return c.block, c.addr, addr < c.end && addr >= c.addr
	}
	return x.findIn(&x.pages[e], addr)
}

// findIn is find for an address in page p.
func (x *index) findIn(p *page, addr uint64) (i uint32, start uint64, ok bool) {
	w, bit := addr>>9%8, addr>>3%64
	if below := p.starts[w] & (2<<bit - 1); below != 0 {
		at := uint64(63 - bits.LeadingZeros64(below))
		start = addr&^511 | at<<3
		i = p.number(start)
		return i, start, addr-start < x.extent(i)
	}
	for w > 0 {
		w--
		if m := p.starts[w]; m != 0 {
			start = addr&^(pageBytes-1) | w<<9 | uint64(63-bits.LeadingZeros64(m))<<3
			i = p.number(start)
			return i, start, addr-start < x.extent(i)
		}
	}
	if p.before == 0 {
		return 0, 0, false
	}
	i = p.first - 1
	return i, p.before, addr-p.before < x.extent(i)
}

// memory is how much the index takes up, in bytes: what was used of it.
func (x *index) memory() uint64 {
	return uint64(len(x.regions))*(16+4*regionWins+4*regionPages) + uint64(len(x.pages))*80 +
		uint64(len(x.sizes))*4 + uint64(len(x.covers))*24 + uint64(len(x.order))*4
}
