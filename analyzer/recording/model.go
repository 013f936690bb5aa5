package recording

// A model predicts addresses. Writer and reader run the same one over a block, so that what it foresees takes a
// byte. It knows what an allocator does: it hands out what was freed last of a size, or what lies behind the
// block before; and programs free what they allocated last.
//
// It starts anew with each block, as blocks are read without those before.
type model struct {
	live   liveTable
	bins   [binCount]bin
	used   [binCount]bool // bins with something in them, so that starting anew is cheap
	dirty  []uint16
	actors []actorState // by actor
	stray  uint64       // the last address that was freed and is not known
	pool   uint64
	fault  uint64
}

// actorState is what the model knows of a thread.
type actorState struct {
	addr, size uint64 // its last allocation
}

const (
	binCount = 1 << 12
	binDepth = 8
)

// A bin are addresses that were freed of one size, the last one at top-1.
type bin struct {
	addr [binDepth]uint64
	top  uint8
}

// Codes of an allocation's address. Those below binDepth are a place in its bin, from its top.
const (
	addrBehind = binDepth + iota // behind the block that its thread allocated before
	addrOld                      // of a realloc: where the block was
	addrZero
	addrFar // a distance from the block that its thread allocated before
)

// Codes of a freed address. Those below near are a place among the live blocks of this recording's block, from the
// youngest.
const (
	near     = 12
	freeAge  = 13 // so many allocations ago
	freeZero = 14 // no block
	freeElse = 15 // a distance from the stray address before
)

func (m *model) reset() {
	m.live.reset()
	for _, b := range m.dirty {
		m.bins[b].top, m.used[b] = 0, false
	}
	m.dirty, m.actors = m.dirty[:0], m.actors[:0]
	m.stray, m.pool, m.fault = 0, 0, 0
}

// chunk is the size class of a block: glibc's, and near those of others.
func chunk(size uint64) uint64 { return max(32, (size+8+15)&^15) }

func (m *model) bin(size uint64) *bin {
	i := uint16(chunk(size) * 0x9e3779b97f4a7c15 >> 52)
	if !m.used[i] {
		m.used[i] = true
		m.dirty = append(m.dirty, i)
	}
	return &m.bins[i]
}

// find returns the place of addr from the top, and takes it out; -1 where it is not.
func (b *bin) find(addr uint64) int {
	for i := int(b.top) - 1; i >= 0; i-- {
		if b.addr[i] == addr {
			place := int(b.top) - 1 - i
			b.takeOut(i)
			return place
		}
	}
	return -1
}

func (b *bin) takeOut(i int) {
	copy(b.addr[i:b.top-1], b.addr[i+1:b.top])
	b.top--
}

// at takes out what is at a place from the top.
func (b *bin) at(place int) (uint64, bool) {
	i := int(b.top) - 1 - place
	if i < 0 {
		return 0, false
	}
	addr := b.addr[i]
	b.takeOut(i)
	return addr, true
}

func (b *bin) push(addr uint64) {
	if b.top == binDepth {
		copy(b.addr[:], b.addr[1:])
		b.top--
	}
	b.addr[b.top] = addr
	b.top++
}

func (m *model) actor(i uint32) *actorState {
	for int(i) >= len(m.actors) {
		m.actors = append(m.actors, actorState{})
	}
	return &m.actors[i]
}

// allocated notes a new block.
func (m *model) allocated(a *actorState, addr, size uint64) {
	a.addr, a.size = addr, size
	m.live.add(addr, size)
}

// freed notes that the i-th live block is gone.
func (m *model) freed(i uint32) {
	b := &m.live.blocks[i]
	m.bin(b.size).push(b.addr)
	m.live.remove(i)
}

// codeAddr encodes where a block was allocated; old is where it was before a realloc.
func (m *model) codeAddr(cols *[columns][]byte, actor uint32, addr, size, old uint64) {
	a := m.actor(actor)
	code := byte(addrFar)
	switch {
	case addr == 0:
		cols[colAddrs] = append(cols[colAddrs], addrZero)
		return
	case addr == old:
		code = addrOld
	case addr == a.addr+chunk(a.size):
		code = addrBehind
	default:
		if place := m.bin(size).find(addr); place >= 0 {
			code = byte(place)
		} else {
			cols[colAddrRest] = appendSigned(cols[colAddrRest], int64(addr-a.addr))
		}
	}
	cols[colAddrs] = append(cols[colAddrs], code)
	m.allocated(a, addr, size)
}

// addr decodes what codeAddr has encoded.
func (m *model) addr(cols *[columns]column, actor uint32, size, old uint64) uint64 {
	a := m.actor(actor)
	var addr uint64
	switch code := cols[colAddrs].byte(); code {
	case addrZero:
		return 0
	case addrOld:
		addr = old
	case addrBehind:
		addr = a.addr + chunk(a.size)
	case addrFar:
		addr = a.addr + uint64(cols[colAddrRest].signed())
	default:
		ok := code < binDepth
		if ok {
			addr, ok = m.bin(size).at(int(code))
		}
		if !ok {
			cols[colAddrs].bad = true
			return 0
		}
	}
	m.allocated(a, addr, size)
	return addr
}

// codeFree encodes which block was freed.
func (m *model) codeFree(cols *[columns][]byte, addr uint64) {
	if addr == 0 {
		cols[colFrees] = append(cols[colFrees], freeZero)
		return
	}
	i, ok := m.live.find(addr)
	if !ok {
		cols[colFrees] = append(cols[colFrees], freeElse)
		cols[colFreeRest] = appendSigned(cols[colFreeRest], int64(addr-m.stray))
		m.stray = addr
		return
	}
	if place := m.live.placeOf(i); place >= 0 {
		cols[colFrees] = append(cols[colFrees], byte(place))
	} else {
		cols[colFrees] = append(cols[colFrees], freeAge)
		cols[colFreeRest] = appendUvarint(cols[colFreeRest], uint64(uint32(len(m.live.blocks))-i))
	}
	m.freed(i)
}

// free decodes what codeFree has encoded.
func (m *model) free(cols *[columns]column) uint64 {
	code := cols[colFrees].byte()
	var i uint32
	ok := true
	switch code {
	case freeZero:
		return 0
	case freeElse:
		m.stray += uint64(cols[colFreeRest].signed())
		return m.stray
	case freeAge:
		age := cols[colFreeRest].uvarint()
		if ok = age >= 1 && age <= uint64(len(m.live.blocks)); ok {
			i = uint32(uint64(len(m.live.blocks)) - age)
			ok = m.live.blocks[i].isLive()
		}
	default:
		i, ok = m.live.at(int(code))
	}
	if !ok {
		cols[colFrees].bad = true
		return 0
	}
	addr := m.live.blocks[i].addr
	m.freed(i)
	return addr
}
