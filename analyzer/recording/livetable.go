package recording

import (
	"math/bits"
	"math/rand/v2"
)

// A liveTable has the blocks that were allocated within one block of the recording, in their order, and finds
// those that live by address. The live ones are linked, the youngest first.
type liveTable struct {
	blocks []liveBlock
	last   uint32 // 1 + the youngest live one; 0: none
	slots  []slot // open addressing, by a hash of the address; a power of two
	round  uint32 // slots of earlier rounds are empty
	held   int    // slots in use, those of the dead too

	// key is random, so that a program can't choose addresses that collide. The file doesn't depend on it.
	key [2]uint64
}

type liveBlock struct {
	addr, size   uint64
	older, newer uint32 // 1 + their numbers; 0: none
	live         bool
}

type slot struct {
	round, block uint32
}

const leastSlots = 1 << 10

func (t *liveTable) reset() {
	t.blocks, t.last, t.held = t.blocks[:0], 0, 0
	if t.round++; t.round == 0 || t.slots == nil {
		t.slots, t.round = make([]slot, leastSlots), 1
		t.key = [2]uint64{rand.Uint64(), rand.Uint64() | 1}
	}
}

func (t *liveTable) home(addr uint64) uint32 {
	hi, lo := bits.Mul64(addr^t.key[0], t.key[1])
	return uint32(hi^lo) & uint32(len(t.slots)-1)
}

// find returns the number of the live block at addr.
func (t *liveTable) find(addr uint64) (uint32, bool) {
	mask := uint32(len(t.slots) - 1)
	for s := t.home(addr); t.slots[s].round == t.round; s = (s + 1) & mask {
		i := t.slots[s].block
		if b := &t.blocks[i]; b.addr == addr {
			return i, b.live
		}
	}
	return 0, false
}

// add makes a block live. One that still lives at its address is forgotten: its free was not seen.
func (t *liveTable) add(addr, size uint64) {
	i := uint32(len(t.blocks))
	if s, found := t.slotOf(addr); found {
		if was := t.slots[s].block; t.blocks[was].live {
			t.remove(was)
		}
		t.slots[s].block = i
	} else {
		t.slots[s] = slot{t.round, i}
		t.held++
	}
	t.blocks = append(t.blocks, liveBlock{addr: addr, size: size, older: t.last, live: true})
	if t.last != 0 {
		t.blocks[t.last-1].newer = i + 1
	}
	t.last = i + 1
	if t.held*2 > len(t.slots) {
		t.grow()
	}
}

// slotOf returns the slot of an address, or the empty one where it is to be.
func (t *liveTable) slotOf(addr uint64) (uint32, bool) {
	mask := uint32(len(t.slots) - 1)
	s := t.home(addr)
	for ; t.slots[s].round == t.round; s = (s + 1) & mask {
		if t.blocks[t.slots[s].block].addr == addr {
			return s, true
		}
	}
	return s, false
}

func (t *liveTable) grow() {
	old, round := t.slots, t.round
	t.slots, t.round = make([]slot, 2*len(old)), 1
	for _, s := range old {
		if s.round == round {
			at, _ := t.slotOf(t.blocks[s.block].addr)
			t.slots[at] = slot{t.round, s.block}
		}
	}
}

func (t *liveTable) remove(i uint32) {
	b := &t.blocks[i]
	b.live = false
	if b.older != 0 {
		t.blocks[b.older-1].newer = b.newer
	}
	if b.newer != 0 {
		t.blocks[b.newer-1].older = b.older
	} else {
		t.last = b.older
	}
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
