package heapwalk

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/procfs"
)

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

// Examine walks the heap of a process once and judges the claims, which it
// sorts by address. A block that was freed and given out again, at the same
// size, passes for the first one. Errors are those of Walk.
func Examine(p *procfs.Process, o Options, claims []Claim) error {
	h, err := Walk(p, o)
	if err != nil {
		return err
	}
	slices.SortFunc(claims, func(x, y Claim) int { return compareSpans(span{start: x.Addr}, span{start: y.Addr}) })
	if o.Thread == 0 {
		o.Thread = p.PID()
	}
	m, err := openMemory(p, o.Thread, o.Still)
	if err != nil {
		return err
	}
	defer m.close()
	var again []*Claim
	for i := range claims {
		c := &claims[i]
		if c.State = h.state(c); c.State == Allocated && !o.Still {
			again = append(again, c)
		}
	}
	for group := range slices.Chunk(again, recheckAtOnce) {
		if err := h.recheck(m, group); err != nil {
			return fmt.Errorf("look at blocks of process %d: %w", p.PID(), err)
		}
	}
	return nil
}

const (
	// recheckAtOnce is how many blocks one call reads: half of what the kernel takes (UIO_MAXIOV).
	recheckAtOnce = 512
	recheckBytes  = 16 // of each, with the key of a cached one in the second half
)

// recheck looks for the key of freed blocks, as lists change while they are
// followed. What can't be read any more has been freed, too.
func (h *Heap) recheck(m *memory, claims []*Claim) error {
	buf := make([]byte, recheckBytes*len(claims))
	remote := make([]unix.RemoteIovec, len(claims))
	for i, c := range claims {
		remote[i] = unix.RemoteIovec{Base: uintptr(c.Addr), Len: recheckBytes}
	}
	for len(claims) > 0 {
		n, err := m.readv(buf[:recheckBytes*len(claims)], remote)
		if err != nil && !errors.Is(err, unix.EFAULT) {
			return err
		}
		whole := max(n, 0) / recheckBytes // the kernel stops at the first that is not there
		for i, c := range claims[:whole] {
			if h.keys[word(buf[recheckBytes*i:], 1)] {
				c.State = Freed
			}
		}
		if whole == len(claims) {
			break
		}
		claims[whole].State = Freed
		claims, remote = claims[whole+1:], remote[whole+1:]
	}
	return nil
}

// state is what a walk says of a block.
func (h *Heap) state(c *Claim) State {
	if c.Addr%chunkAlign != 0 {
		return Unknown
	}
	if i, ok := h.blocks.find(c.Addr); ok {
		b := h.blocks.at(i)
		switch {
		case b.cached(), !h.fits(b, c.Size):
			return Freed
		case h.Unlisted != 0 && b.Size() <= maxFast:
			return Unknown // it may be in a list that was not followed
		}
		return Allocated
	}
	if i, ok := slices.BinarySearchFunc(h.arenas, c.Addr, func(s span, addr uint64) int {
		switch {
		case s.end <= addr:
			return -1
		case s.start > addr:
			return 1
		}
		return 0
	}); ok {
		if h.gaps[i] {
			return Unknown
		}
		return Freed
	}
	if !h.listed {
		return Unknown
	}
	return Freed // in no arena, and no block with a mapping of its own
}

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
