package heapwalk

// A Block is an allocated block of the heap.
type Block struct {
	Addr uint64
	meta uint64 // size, group, unproven, cached
}

const (
	sizeBitsKept = 40
	groupShift   = sizeBitsKept
	groupBits    = 22
	unprovenBit  = 1 << 62
	cachedBit    = 1 << 63
	maxSize      = 1<<sizeBitsKept - 1
	maxGroups    = 1<<groupBits - 1
)

func newBlock(addr, size uint64, group uint32) Block {
	return Block{addr, min(size, maxSize) | uint64(group)<<groupShift}
}

// Size is what the block can hold, in bytes: up to 15 more than was asked for,
// 23 more where 24, and a page more where it has a mapping of its own.
func (b Block) Size() uint64 { return b.meta & maxSize }

// Group is an index into Heap.Groups.
func (b Block) Group() uint32 { return uint32(b.meta >> groupShift & maxGroups) }

// cached: it is freed, and kept for quick reuse.
func (b *Block) cached() bool { return b.meta&cachedBit != 0 }

// unproven: it is freed and kept only if the process has not run meanwhile; if it is not cached, not even then
// is that sure.
func (b *Block) unproven() bool { return b.meta&unprovenBit != 0 }

// A blockList holds blocks in ascending order, 16 bytes each.
type blockList struct {
	pieces [][]Block
	n      int
}

const (
	pieceShift  = 14
	pieceBlocks = 1 << pieceShift
)

func (l *blockList) add(b Block) {
	if l.n%pieceBlocks == 0 {
		l.pieces = append(l.pieces, make([]Block, 0, pieceBlocks))
	}
	last := &l.pieces[len(l.pieces)-1]
	*last = append(*last, b)
	l.n++
}

func (l *blockList) at(i int) *Block { return &l.pieces[i>>pieceShift][i%pieceBlocks] }

// find returns the block that starts at addr.
func (l *blockList) find(addr uint64) (int, bool) {
	lo, hi := 0, l.n
	for lo < hi {
		if mid := (lo + hi) / 2; l.at(mid).Addr < addr {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, lo < l.n && l.at(lo).Addr == addr
}
