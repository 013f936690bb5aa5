package analyzer

import (
	"math/bits"
	"math/rand/v2"
)

// A liveHeap holds the live blocks of one process by address, in 37 to 41
// bytes a block at any size, outside of the garbage collector's heap.
//
// It is an extendible hash table (Fagin et al., 1979): a directory, indexed by
// the upper bits of the hash, of segments of one page each. A full segment is
// split in two, and two half empty neighbours are merged, so no operation
// moves more than two segments' blocks, however large the heap; only the
// directory, 1/1000 of the whole, is copied when it doubles. A merged segment's
// page is filled with the pool's last one, so the pages stay dense and memory
// goes back to the kernel as the heap shrinks.
//
// Segments of equal load would all split at about the same moment, and the
// memory a block takes would swing by two with the heap's size. Position
// spreads the blocks unevenly, twice as dense at one end of the directory as at
// the other, so splits move along it as a front and the load stays the same
// (the idea of spiral storage, Martin 1979).
//
// The hash is keyed with random numbers: addresses are aligned, clustered, and
// chosen by a program that may be hostile.
type liveHeap struct {
	dir   []uint32 // segment of each prefix of depth bits
	shift uint8    // 32 - depth: the directory's index is position >> shift
	depth uint8
	count uint64
	pool  segmentPool
	key   [2]uint64
}

const (
	maxDepth = 28 // directory bits: 2^28 segments hold 27 billion blocks

	// mergeAt is the most blocks that two segments may have together to be
	// merged. It leaves the result room for some inserts before the next split.
	mergeAt = 136

	// mergeTry is the number of blocks below which a segment looks, at every
	// fourth removal, whether it can be merged.
	mergeTry = 84
)

func newLiveHeap(keys rand.Source) *liveHeap {
	return &liveHeap{key: [2]uint64{keys.Uint64(), keys.Uint64() | 1}}
}

// hash mixes an address: a 64 × 64 to 128 bit product folded (as wyhash does).
func (h *liveHeap) hash(addr uint64) uint64 {
	hi, lo := bits.Mul64(addr^h.key[0], h.key[1])
	hi, lo = bits.Mul64(hi^lo, 0x9e3779b97f4a7c15)
	return hi ^ lo
}

// position maps a hash to a place in the directory, as a 32-bit fraction:
// y = (2x + x²)/3 with x the upper 31 bits of the hash, so that the density of
// blocks falls from 3/2 at y = 0 to 3/4 at y = 1.
func position(hash uint64) uint32 {
	x := hash >> 33
	return uint32(x * (1<<32 + x) / 3 >> 30)
}

// segmentOf returns the segment where addr belongs.
func (h *liveHeap) segmentOf(hash uint64) *segment {
	return h.pool.at(h.dir[position(hash)>>h.shift])
}

// get returns the block at addr, whose hash is given.
func (h *liveHeap) get(addr, hash uint64) (block, bool) {
	if h.count == 0 {
		return block{}, false
	}
	s := h.segmentOf(hash)
	if i := s.find(addr, hash); i >= 0 {
		return s.slots[i].block(), true
	}
	return block{}, false
}

// put makes b live and returns the block that was live at its address, if
// there was one. It fails where no memory is to be had; the heap is then
// unchanged. hash is that of b.addr.
func (h *liveHeap) put(b block, hash uint64) (old block, displaced bool, err error) {
	if h.dir == nil {
		if err := h.start(); err != nil {
			return block{}, false, err
		}
	}
	s := h.segmentOf(hash)
	if i := s.find(b.addr, hash); i >= 0 {
		old = s.slots[i].block()
		s.slots[i] = pack(b)
		return old, true, nil
	}
	if s.count >= segFull {
		if s, err = h.makeRoom(s, hash); err != nil {
			return block{}, false, err
		}
	}
	s.insert(pack(b), hash)
	h.count++
	return block{}, false, nil
}

// makeRoom splits s until the segment of hash has room, and returns that.
func (h *liveHeap) makeRoom(s *segment, hash uint64) (*segment, error) {
	for s.count >= segFull {
		err := h.split(s)
		if err != nil && s.count == segSlots {
			return nil, err
		}
		if err != nil { // too full for good, but there is still room
			return s, nil
		}
		s = h.segmentOf(hash)
	}
	return s, nil
}

// remove takes the block at addr, whose hash is given, out of the heap.
func (h *liveHeap) remove(addr, hash uint64) (block, bool) {
	if h.count == 0 {
		return block{}, false
	}
	s := h.segmentOf(hash)
	i := s.find(addr, hash)
	if i < 0 {
		return block{}, false
	}
	b := s.slots[i].block()
	s.remove(i, hash)
	h.count--
	if s.count < mergeTry && s.count%4 == 0 {
		h.merge(s)
	}
	return b, true
}

// all yields every live block, in no particular order. The heap must not be
// changed meanwhile, other than by closing it after the iteration.
func (h *liveHeap) all(yield func(block) bool) {
	for i := range h.pool.used {
		if !h.pool.at(i).all(func(s *slot) bool { return yield(s.block()) }) {
			return
		}
	}
}

// bytes is the memory that the heap takes up.
func (h *liveHeap) bytes() uint64 { return h.pool.bytes() + uint64(cap(h.dir))*4 }

// close gives all memory back. The heap is then empty, and usable.
func (h *liveHeap) close() {
	h.pool.free()
	h.dir, h.depth, h.shift, h.count = nil, 0, 0, 0
}
