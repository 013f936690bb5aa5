package heapwalk

// A Claim is a block that someone takes for allocated, and what the allocator's
// records say to that.
type Claim struct {
	Addr, Size uint64 // as it was asked for
	State      State
}

// State says what became of a block.
type State uint8

const (
	Unknown   State = iota // its memory could not be gone through
	Allocated              // a block of that size is allocated there
	Freed                  // none is: what is there is free, or part of another block
)

// fits reports whether a block may be what a call for so many bytes returned:
// what is left over in a chunk is at most less than two smallest ones.
func (h *Heap) fits(b *Block, size uint64) bool {
	least := max(minChunk, (size+8+chunkAlign-1)&^(chunkAlign-1)) - 8
	if size > 1<<62 || b.Size() < min(least, maxSize) {
		return b.Size() >= size // one with a mapping of its own has no successor's word
	}
	return b.Size() < least+2*minChunk || b.Size() >= pageBytes && b.Size() < least+2*pageBytes
}

func compareSpans(x, y span) int {
	switch {
	case x.start < y.start:
		return -1
	case x.start > y.start:
		return 1
	}
	return 0
}
