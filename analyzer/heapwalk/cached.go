package heapwalk

import "errors"

// Freed blocks that the next one's header calls in use, for quick reuse, are in
// singly linked lists: of each thread (tcache), and, up to 2.42, of each arena
// (fastbins). From 2.32 on links are exclusive-ored with a twelfth of their
// own address's bits ("safe-linking").
//
// A thread's lists hang from a block in the heap:
//
//	2.26 to 2.29    char     counts[64];     entry *entries[64];
//	2.30 to 2.41    uint16_t counts[64];     entry *entries[64];
//	from 2.42 on    uint16_t num_slots[76];  entry *entries[76];
//
// where list i holds blocks of chunks of 32 + 16 i bytes, for i < 64. Nobody
// outside knows which block that is, but no other block of that size has such
// pointers at such places. A freed block's second word is a key: that block's
// address (2.29 to 2.33), or a random number, the same in the whole process.
type tableLayout struct {
	chunk   uint64 // size of the chunk; 16 more where less than a chunk would have been left over
	entries uint64 // offset
	lists   int
}

var tableLayouts = []tableLayout{{0x250, 64, 64}, {0x290, 128, 64}, {0x300, 152, 76}}

const (
	exactLists = 64      // lists whose chunks are of one size
	maxCached  = 1 << 22 // in all lists of a process
	listTries  = 5
)

// layoutOf is the layout of lists that may hang from a chunk of this size; one
// without lists if none may.
func layoutOf(chunk uint64) tableLayout {
	for _, l := range tableLayouts {
		if chunk == l.chunk || chunk == l.chunk+chunkAlign {
			return l
		}
	}
	return tableLayout{}
}

// errList means that a list could not be followed to its end.
var errList = errors.New("a list of freed blocks changes while it is read, or is corrupt")

// A lister follows the lists and notes which blocks are in them.
type lister struct {
	m      *memory
	blocks *blockList
	keys   map[uint64]bool // that mark freed blocks
	tables []uint64        // blocks from which threads' lists hang
	cached int
	fast   uint64 // bytes of chunks in fastbins
}

// thread follows the lists that hang from a block, if they do. False: it is
// an ordinary block.
func (l *lister) thread(block, chunk uint64) (bool, error) {
	for range listTries {
		is, err := l.table(block, chunk)
		if err == nil {
			return is, nil
		}
		if !errors.Is(err, errList) && !errors.Is(err, errUnreadable) {
			return false, err
		}
	}
	return false, nil // so are its blocks: the key may give them away
}

func (l *lister) table(block, chunk uint64) (bool, error) {
	layout := layoutOf(chunk)
	heads := make([]uint64, layout.lists)
	if err := l.m.words(block+layout.entries, heads); err != nil {
		return false, err
	}
	any := false
	for i, head := range heads {
		if head == 0 {
			continue
		}
		any = true
		if size, ok := l.sizeOf(head); !ok || i < exactLists && size != minChunk+chunkAlign*uint64(i) {
			return false, nil
		}
	}
	if !any {
		return false, nil
	}
	l.tables = append(l.tables, block)
	for _, head := range heads {
		if err := l.list(head, 0, true); err != nil {
			return true, err
		}
	}
	return true, nil
}

// sizeOf returns the size of the chunk whose block begins at addr.
func (l *lister) sizeOf(addr uint64) (uint64, bool) {
	i, ok := l.blocks.find(addr)
	if !ok {
		return 0, false
	}
	return l.blocks.at(i).Size() + 8, true
}

// list follows a list to its end and marks what is in it. Links point toward
// blocks, less back bytes.
func (l *lister) list(addr, back uint64, keyed bool) error {
	mark, steps, until := addr, 0, 1 // Brent's search for a cycle
	for addr != 0 {
		if l.cached++; l.cached > maxCached {
			return errList
		}
		block := addr + back
		i, ok := l.blocks.find(block)
		if !ok {
			return errList
		}
		var w [2]uint64
		if err := l.m.words(block, w[:]); err != nil {
			return err
		}
		b := l.blocks.at(i)
		if b.cached() && !keyed {
			return nil // the rest is, too
		}
		b.meta |= cachedBit
		if !keyed {
			l.fast += b.Size() + 8
		}
		if keyed && w[1] != 0 {
			l.keys[w[1]] = true
		}
		next, ok := l.next(w[0], block, back)
		if !ok {
			return errList
		}
		if addr = next; addr == mark {
			return errList
		}
		if steps++; steps == until {
			mark, steps, until = addr, 0, 2*until
		}
	}
	return nil
}

// next undoes the protection of a link that stands at addr, if it has one.
func (l *lister) next(link, addr, back uint64) (uint64, bool) {
	for _, to := range []uint64{link ^ addr>>12, link} {
		if to == 0 {
			return 0, true
		}
		if _, ok := l.blocks.find(to + back); ok {
			return to, true
		}
	}
	return 0, false
}

// fastbins follows those of an arena. False: some could not be followed, so
// that blocks which are freed may pass for allocated ones.
func (l *lister) fastbins(a *allocator, x *arena) (bool, error) {
	offset, ok := a.fastbins()
	if !ok {
		return true, nil
	}
	for range listTries {
		var heads [fastBins]uint64
		if err := l.m.words(x.addr+offset, heads[:]); err != nil {
			return false, err
		}
		whole := true
		for _, head := range heads {
			err := l.list(head, headBytes, false)
			if err != nil && !errors.Is(err, errList) && !errors.Is(err, errUnreadable) {
				return false, err
			}
			whole = whole && err == nil
		}
		if whole {
			return true, nil
		}
	}
	return false, nil
}
