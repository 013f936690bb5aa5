package recording

import (
	"math/bits"
	"math/rand/v2"
)

// A liveTable has the blocks that were allocated within one block of the recording, in their order, and finds
// those that live by address. The live ones are linked, the youngest first.
type liveTable struct {
	blocks []liveBlock
	last   uint32   // 1 + the youngest live one; 0: none
	slots  []uint64 // open addressing: a part of the hash, and 1 + the block's number; 0: empty
	held   int      // slots in use, those of the dead too

	// key is random, so that a program can't choose addresses that collide. The file doesn't depend on it.
	key [2]uint64
}

// A liveBlock is linked to the next older and the next newer live one by 1 + their numbers; 0: none.
type liveBlock struct {
	addr, size   uint64
	older, newer uint32
}

// dead is what a block that lives no more has for its older one.
const dead = 1<<32 - 1

func (b *liveBlock) isLive() bool { return b.older != dead }

const leastSlots = 1 << 10

func (t *liveTable) reset() {
	if t.slots == nil {
		t.slots = make([]uint64, leastSlots)
		t.key = [2]uint64{rand.Uint64(), rand.Uint64() | 1}
	}
	if t.held > 0 {
		clear(t.slots)
	}
	t.blocks, t.last, t.held = t.blocks[:0], 0, 0
}

func (t *liveTable) hash(addr uint64) uint64 {
	hi, lo := bits.Mul64(addr^t.key[0], t.key[1])
	return hi ^ lo
}

// find returns the number of the live block at addr.
func (t *liveTable) find(addr uint64) (uint32, bool) {
	if s, found := t.slotOf(addr, t.hash(addr)); found {
		i := uint32(t.slots[s]) - 1
		return i, t.blocks[i].isLive()
	}
	return 0, false
}

// slotOf returns the slot of an address, or the empty one where it is to be.
func (t *liveTable) slotOf(addr, hash uint64) (uint64, bool) {
	mask := uint64(len(t.slots) - 1)
	s := hash & mask
	for ; t.slots[s] != 0; s = (s + 1) & mask {
		if (t.slots[s]^hash)>>32 == 0 && t.blocks[uint32(t.slots[s])-1].addr == addr {
			return s, true
		}
	}
	return s, false
}

// add makes a block live. One that still lives at its address is forgotten: its free was not seen.
func (t *liveTable) add(addr, size uint64) {
	hash := t.hash(addr)
	s, found := t.slotOf(addr, hash)
	if !found {
		t.held++
	} else if was := uint32(t.slots[s]) - 1; t.blocks[was].isLive() {
		t.remove(was)
	}
	number := uint32(len(t.blocks)) + 1
	t.slots[s] = hash&^(1<<32-1) | uint64(number)
	t.blocks = append(t.blocks, liveBlock{addr: addr, size: size, older: t.last})
	if t.last != 0 {
		t.blocks[t.last-1].newer = number
	}
	t.last = number
	if t.held*2 > len(t.slots) {
		t.grow()
	}
}

func (t *liveTable) grow() {
	old := t.slots
	t.slots = make([]uint64, 2*len(old))
	mask := uint64(len(t.slots) - 1)
	for _, v := range old {
		if v == 0 {
			continue
		}
		s := t.hash(t.blocks[uint32(v)-1].addr) & mask
		for t.slots[s] != 0 {
			s = (s + 1) & mask
		}
		t.slots[s] = v
	}
}

func (t *liveTable) remove(i uint32) {
	b := &t.blocks[i]
	if b.older != 0 {
		t.blocks[b.older-1].newer = b.newer
	}
	if b.newer != 0 {
		t.blocks[b.newer-1].older = b.older
	} else {
		t.last = b.older
	}
	b.older = dead
}

// placeOf is a live block's place from the youngest, -1 where that is not near.
func (t *liveTable) placeOf(i uint32) int {
	at := t.last
	for place := range near {
		if at == i+1 {
			return place
		}
		if at == 0 {
			break
		}
		at = t.blocks[at-1].older
	}
	return -1
}

// at returns the block at a place from the youngest.
func (t *liveTable) at(place int) (uint32, bool) {
	if place >= near {
		return 0, false
	}
	at := t.last
	for ; place > 0 && at != 0; place-- {
		at = t.blocks[at-1].older
	}
	return at - 1, at != 0
}
