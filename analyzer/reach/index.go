//go:build linux && !viewer

package reach

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"unsafe"
)

// An index finds the block that an address lies in. Blocks are numbered in the
// order of their addresses. What a pointer to a block's start needs is three
// loads, of which two may miss the caches, each one line:
//
//	top (an entry per 2 MiB) ─▶ region (a pageRef per page) ─▶ page: a bit per
//	8 bytes, set where a block starts
//
// Neither the address nor the size of a block is looked at for that; a block's
// number is the count of the bits before its own. An entry may also stand for
// a page or region in which no block starts but that one covers: see covers.
type index struct {
	area area
	base uint64 // of the first entry of top, a multiple of regionBytes
	lo   uint64 // of the first block
	hi   uint64 // first address after the last block's start region: bound of pointers
	// near is 1 for each 4 GiB that has blocks: between lo and hi is much that
	// looks like text or numbers, as [heap] is far from mapped memory.
	near [1 << (addrBits - nearShift)]uint8
	top  []entry
	// regions and pages begin at 1, as 0 means that there is none.
	regions []region
	pages   []page
	before  []uint64 // by page: the last block that starts before it, if it reaches into it
	covers  []cover  // blocks that cover pages in which none starts
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

	nearShift = 32
	nearByte  = nearShift / 8 // of a word, least significant first: there are two
)

// An entry is 0, the number of a region or page, or that of a cover.
type entry uint32

const coverFlag entry = 1 << 31

type region struct {
	addr  uint64
	first uint32 // number of the first block that starts here
	_     uint32
	wins  [regionWins]uint32 // number of the window + 1
	pages [regionPages]pageRef
}

// A pageRef says where a page's bits are, and what its blocks' numbers are.
type pageRef struct {
	entry  entry
	first  uint32 // number of the first block that starts in the page
	counts uint64 // of the blocks that start before the second to eighth word of bits, nine bits each
}

const (
	regionSize  = uint64(unsafe.Sizeof(region{}))
	regionRefs  = uint64(unsafe.Offsetof(region{}.pages))
	pageRefSize = uint64(unsafe.Sizeof(pageRef{}))
)

// A page has a bit for each 8 bytes, set where a block starts: a cache line.
type page [8]uint64

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
	pages := min(n, regions*regionPages) + 1
	if x.pages, err = table[page](&x.area, pages); err != nil {
		return err
	}
	if x.before, err = table[uint64](&x.area, pages); err != nil {
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
		ref := &x.regions[*t].pages[addr>>pageShift%regionPages]
		if ref.entry == 0 {
			ref.entry = pages
			pages++
		}
		x.pages[ref.entry][addr>>9%8] |= 1 << (addr >> 3 % 64)
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
		for k := range x.regions[r].pages {
			ref := &x.regions[r].pages[k]
			if ref.entry == 0 {
				continue
			}
			ref.first = n
			for w, starts := range x.pages[ref.entry] {
				if w > 0 {
					ref.counts |= uint64(n-ref.first) << (9 * (w - 1))
				}
				n += uint32(bits.OnesCount64(starts))
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
		ref := &x.regions[x.top[(addr-x.base)>>regionShift]].pages[addr>>pageShift%regionPages]
		i := ref.number(x.pages[ref.entry][addr>>9%8], addr)
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

// number returns the number of the block that starts at addr, in this page, of
// which starts is the word of bits that addr has its own in. It has no
// branches, which would depend on the address and be foreseen badly.
func (r *pageRef) number(starts, addr uint64) uint32 {
	w := addr >> 9 % 8
	before := r.counts >> ((9*w - 9) & 63) & (-w >> 55) // nothing is before the first
	return r.first + uint32(before) + uint32(bits.OnesCount64(starts&(1<<(addr>>3%64)-1)))
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
	for k := range r.pages {
		ref := &r.pages[k]
		if ref.empty() {
			continue
		}
		if i-ref.first < x.countIn(ref) {
			addr := uint64(0)
			x.allIn(ref, r.addr+uint64(k)<<pageShift, func(at uint64, number uint32) bool {
				addr = at
				return number != i
			})
			return addr
		}
	}
	return 0 // there is no such block
}

// empty reports whether no block starts in the page.
func (r *pageRef) empty() bool { return r.entry == 0 || r.entry&coverFlag != 0 }

// countIn is the number of blocks that start in a page.
func (x *index) countIn(r *pageRef) uint32 {
	return uint32(r.counts>>54) + uint32(bits.OnesCount64(x.pages[r.entry][7]))
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

// reach enters block i in near, and in the pages after the one it starts in.
func (x *index) reach(addr, end uint64, i uint32) {
	for at := addr >> nearShift; at <= (end-1)>>nearShift; at++ {
		x.near[at] = 1
	}
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
		e := &x.regions[*t].pages[at>>pageShift%regionPages].entry
		if *e == 0 {
			*e = cov()
		} else if *e&coverFlag == 0 {
			x.before[*e] = addr
		}
		at += pageBytes
	}
}

// all yields the blocks' addresses and numbers, ascending.
func (x *index) all(yield func(addr uint64, i uint32) bool) {
	for _, r := range x.order {
		reg := &x.regions[r]
		for k := range reg.pages {
			if ref := &reg.pages[k]; !ref.empty() && !x.allIn(ref, reg.addr+uint64(k)<<pageShift, yield) {
				return
			}
		}
	}
}

// allIn yields the blocks that start in the page at base.
func (x *index) allIn(r *pageRef, base uint64, yield func(addr uint64, i uint32) bool) bool {
	n := r.first
	for w, m := range x.pages[r.entry] {
		for ; m != 0; m &= m - 1 {
			if !yield(base+uint64(w)<<9+uint64(bits.TrailingZeros64(m))<<3, n) {
				return false
			}
			n++
		}
	}
	return true
}

// memory is how much the index takes up, in bytes: what was used of it.
func (x *index) memory() uint64 {
	return uint64(len(x.regions))*(16+4*regionWins+16*regionPages) + uint64(len(x.pages))*72 + uint64(len(x.near)) +
		uint64(len(x.sizes))*4 + uint64(len(x.covers))*24 + uint64(len(x.order))*4
}
