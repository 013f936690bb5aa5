package analyzer

import (
	"math/bits"
	"unsafe"
)

// A Block is a live block of a traced process.
type block struct {
	addr uint64
	size uint64 // bytes; at most maxSize
	time uint64 // of the allocation, ns since Config.Start; at most maxTime
	site siteID

	interval uint8 // number of the sampling interval: intervals
}

const (
	sizeBits     = 48 // no user address space is larger than 2^47 bytes with four levels of page tables
	timeBits     = 54 // 208 days of ns
	intervalBits = 2
	maxSize      = 1<<sizeBits - 1
	maxTime      = 1<<timeBits - 1
)

// A slot is a block in 24 bytes.
type slot struct {
	addr     uint64
	sizeTime uint64 // size, then the interval, then the upper 14 bits of time
	siteTime uint64 // site, then the lower 40 bits of time
}

const (
	timeLow  = 64 - siteBits
	timeHigh = timeBits - timeLow
)

func pack(b block) slot {
	size, time := min(b.size, maxSize), min(b.time, maxTime)
	return slot{b.addr, size<<(64-sizeBits) | uint64(b.interval)<<timeHigh | time>>timeLow, uint64(b.site)<<timeLow | time&(1<<timeLow-1)}
}

// time is that of the block.
func (s *slot) time() uint64 { return s.sizeTime&(1<<timeHigh-1)<<timeLow | s.siteTime&(1<<timeLow-1) }

func (s *slot) block() block {
	return block{
		addr: s.addr,
		size: s.sizeTime >> (64 - sizeBits),
		time: s.time(),
		site: siteID(s.siteTime >> timeLow),

		interval: uint8(s.sizeTime >> timeHigh & (1<<intervalBits - 1)),
	}
}

const (
	groupSlots = 8
	groups     = 20
	segSlots   = groups * groupSlots
	segFull    = 152 // blocks at which a segment is split: beyond, probes grow long
)

// A segment is one page of the live heap: a closed hash table of 160 slots in
// groups of eight. A byte a slot, its tag, holds seven bits of the block's hash
// (and 0x80, so that 0 means empty); a group's eight tags are compared at once
// in one word. A block that finds its home group full goes to the next group
// with room, and each group that it passed counts it in passed. So a search ends
// at the first group that nothing has passed, and a deletion only has to take
// back those counts: there are no tombstones. (The scheme of F14, without its
// vector instructions.)
type segment struct {
	prefix uint32 // the directory bits that all blocks here share
	count  uint16
	depth  uint8 // number of bits in prefix
	_      uint8
	passed [groups]uint8
	_      uint32
	tags   [groups]uint64
	_      [8]uint64
	slots  [segSlots]slot
}

// A segment is exactly a page.
var _ [pageSize]byte = [unsafe.Sizeof(segment{})]byte{}

const (
	lowBytes  = 0x0101010101010101
	highBytes = 0x8080808080808080
)

// tagOf returns the tag of a hash, repeated in all bytes of a word.
func tagOf(hash uint64) uint64 { return (hash&0x7f | 0x80) * lowBytes }

// homeOf returns the group where a search for hash begins. It uses other bits
// than tagOf and the directory do.
func homeOf(hash uint64) uint { return uint(hash >> 7 & 0xffff * groups >> 16) }

// reset empties the segment. It leaves the slots as they are, since without a
// tag they mean nothing.
func (s *segment) reset(prefix uint32, depth uint8) {
	s.prefix, s.depth, s.count = prefix, depth, 0
	s.passed = [groups]uint8{}
	s.tags = [groups]uint64{}
}

// find returns the slot of addr, or -1.
func (s *segment) find(addr, hash uint64) int {
	tag, g := tagOf(hash), homeOf(hash)
	for range groups {
		// A byte of diff is zero where the tag matches. The test may also
		// report the byte above a match; comparing addresses settles it.
		diff := s.tags[g] ^ tag
		for m := (diff - lowBytes) &^ diff & highBytes; m != 0; m &= m - 1 {
			i := g*groupSlots + uint(bits.TrailingZeros64(m)>>3)
			if s.slots[i].addr == addr {
				return int(i)
			}
		}
		if s.passed[g] == 0 {
			return -1
		}
		if g++; g == groups {
			g = 0
		}
	}
	return -1
}

// insert adds a block that is not in the segment, which has room.
func (s *segment) insert(v slot, hash uint64) {
	g := homeOf(hash)
	for ^s.tags[g]&highBytes == 0 {
		s.passed[g]++
		if g++; g == groups {
			g = 0
		}
	}
	k := uint(bits.TrailingZeros64(^s.tags[g]&highBytes) >> 3)
	s.tags[g] |= tagOf(hash) & (0xff << (k * 8))
	s.slots[g*groupSlots+k] = v
	s.count++
}

// remove empties slot i, which holds a block with this hash.
func (s *segment) remove(i int, hash uint64) {
	last := uint(i) / groupSlots
	for g := homeOf(hash); g != last; {
		s.passed[g]--
		if g++; g == groups {
			g = 0
		}
	}
	s.tags[last] &^= 0xff << (uint(i) % groupSlots * 8)
	s.count--
}

// all yields the slots in use.
func (s *segment) all(yield func(*slot) bool) bool {
	for g, tags := range s.tags {
		for m := tags & highBytes; m != 0; m &= m - 1 {
			if !yield(&s.slots[g*groupSlots+bits.TrailingZeros64(m)>>3]) {
				return false
			}
		}
	}
	return true
}
