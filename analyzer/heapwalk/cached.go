package heapwalk

import (
	"errors"
	"slices"
)

// Freed blocks that the next one's header calls in use, for quick reuse, are in
// singly linked lists: of each thread (tcache), and, up to 2.42, of each arena
// (fastbins). From 2.32 on links are exclusive-ored with a twelfth of their
// own address's bits ("safe-linking"). tables.go says where the lists of threads begin.
//
// A list that begins as it did is no proof that all in it was free: what stands there may have been taken off and
// put back again, and have been the program's meanwhile. A key is one. So is a link that is exclusive-ored, for
// fastbins: what a program writes makes none, and each that was read led, at some time since the head was, to
// the next on the list. Without either, such blocks are freed only if the process has not run (unproven).

const (
	maxCached = 1 << 22 // in all lists of a process
	listTries = 8
)

// errList means that a list could not be followed to its end.
var errList = errors.New("a list of freed blocks changes while it is read, or is corrupt")

// A lister follows the lists and notes which blocks are in them.
//
// The process goes on meanwhile, and may take a block off a list and write to
// it. What a block's first word is then, a pointer to another block of the
// program's as likely as not, must not be followed as a link. So where freed
// blocks have a key, a block counts as freed only as long as it has it: malloc
// clears it as it hands the block out.
type lister struct {
	m      *memory
	blocks *blockList
	random uint64          // the process's key; 0: it has none, or no block shows it
	keys   map[uint64]bool // that mark freed blocks
	tables []uint64        // blocks from which threads' lists hang
	cached int
	fast   uint64    // bytes of chunks in fastbins
	open   openLists // where what is freed has a key
	blind  openLists // where nothing tells it
}

// openLists are those of threads that could not be followed to their ends: a
// block of such a size may be in one.
type openLists struct {
	sizes map[uint64]bool // of chunks
	from  uint64          // and all chunks of so many bytes or more; 0: none
}

func (o *openLists) add(lists ...int) {
	for _, list := range lists {
		switch {
		case list >= exactLists:
			o.from = minChunk + chunkAlign*exactLists
		case o.sizes == nil:
			o.sizes = map[uint64]bool{minChunk + chunkAlign*uint64(list): true}
		default:
			o.sizes[minChunk+chunkAlign*uint64(list)] = true
		}
	}
}

// has reports whether a block may be in such a list.
func (o *openLists) has(b *Block) bool {
	chunk := b.Size() + 8
	return o.sizes[chunk] || o.from != 0 && chunk >= o.from
}

// threads follows the lists that hang from those of the chunks that have some.
func (l *lister) threads(chunks []candidate) error {
	tables, err := l.tablesOf(chunks)
	if err != nil {
		return err
	}
	if err := l.findRandom(tables); err != nil {
		return err
	}
	var keyless []candidate
	for _, c := range tables {
		key := l.random
		if key == 0 {
			if key, err = l.ownKey(c); err != nil {
				return err
			}
		}
		if key == 0 {
			keyless = append(keyless, c)
		} else if err := l.thread(c, key); err != nil {
			return err
		}
	}
	if len(l.keys) > 0 {
		return nil // then the others are none
	}
	for _, c := range keyless {
		if err := l.thread(c, 0); err != nil {
			return err
		}
	}
	return nil
}

// thread follows all lists of one thread.
//
// What has a random key is free, whatever led there. The address of the table is no such mark, as a program's
// blocks may point to the one that they hang from as well. So there, and without a key, what is found counts
// only where the table is one beyond doubt.
func (l *lister) thread(c candidate, key uint64) error {
	random := key != 0 && key == l.random
	agrees, err := l.settled(c)
	if err != nil || !agrees && !random {
		return err
	}
	layout := layoutOf(c.size)
	var found []*Block
	var failed []int
	exact := 0
	for i := range layout.lists {
		blocks, whole, err := l.ofTable(c, i, key)
		switch {
		case errors.Is(err, errList):
			failed = append(failed, i)
		case err != nil:
			return err
		case whole && len(blocks) > 0:
			exact++
		}
		found = append(found, blocks...)
	}
	sure := agrees && (exact >= layout.least || exact > 0 && c.first) && (key != 0 || !layout.slots)
	if sure {
		l.tables = append(l.tables, c.block())
	}
	switch {
	case random:
		l.open.add(failed...)
	case sure && key != 0:
		l.keys[key] = true
		mark(found, cachedBit)
		l.open.add(failed...)
	case sure:
		mark(found, cachedBit|unprovenBit)
		l.blind.add(failed...)
	default:
		mark(found, unprovenBit)
		l.blind.add(failed...)
	}
	return nil
}

// ofTable follows a list of a table. whole: it has as many blocks as its count says. Errors but errList end the walk.
func (l *lister) ofTable(c candidate, list int, key uint64) (found []*Block, whole bool, err error) {
	random := key != 0 && key == l.random
	for range listTries {
		t, err := l.read(c)
		if err == nil {
			found, err = l.list(t.head(list), 0, key, func(size uint64) bool { return fitsList(size, list) })
		}
		if random {
			mark(found, cachedBit)
		}
		switch {
		case errors.Is(err, errList), errors.Is(err, errUnreadable):
			continue
		case err != nil:
			return nil, false, err
		}
		whole = len(found) == t.length(list)
		if random || whole && (key != 0 || l.unchanged(&t, list)) {
			return found, whole, nil
		}
	}
	return nil, false, errList
}

// unchanged reports whether a list begins as it did.
func (l *lister) unchanged(t *table, list int) bool {
	again, err := l.read(t.candidate)
	return err == nil && again.head(list) == t.head(list) && again.counted(list) == t.counted(list)
}

// mark sets marks of blocks. One that is freed beyond doubt stays so.
func mark(found []*Block, bits uint64) {
	for _, b := range found {
		switch {
		case bits == cachedBit:
			b.meta = b.meta&^unprovenBit | cachedBit
		case !b.cached() || b.unproven():
			b.meta |= bits
		}
	}
}

// sizeOf returns the size of the chunk whose block begins at addr.
func (l *lister) sizeOf(addr uint64) (uint64, bool) {
	i, ok := l.blocks.find(addr)
	if !ok {
		return 0, false
	}
	return l.blocks.at(i).Size() + 8, true
}

// list follows a list to its end, or as far as it is one. Links point toward blocks, less back bytes; fits tells
// which chunks may be in it. With a key, what is found had it.
func (l *lister) list(addr, back, key uint64, fits func(size uint64) bool) (found []*Block, err error) {
	mark, steps, until := addr, 0, 1 // Brent's search for a cycle
	for addr != 0 {
		if l.cached++; l.cached > maxCached {
			return found, errList
		}
		block := addr + back
		i, ok := l.blocks.find(block)
		if !ok || !fits(l.blocks.at(i).Size()+8) {
			return found, errList
		}
		var w [2]uint64
		if err := l.m.words(block, w[:]); err != nil {
			return found, err
		}
		next, ok := l.next(w[0], block, back)
		if !ok || key != 0 && w[1] != key {
			return found, errList
		}
		found = append(found, l.blocks.at(i))
		if addr = next; addr == mark {
			return found, errList
		}
		if steps++; steps == until {
			mark, steps, until = addr, 0, 2*until
		}
	}
	return found, nil
}

// next undoes the protection of a link that stands at addr, if it has one. Where there is a random key it has.
func (l *lister) next(link, addr, back uint64) (uint64, bool) {
	ways := [2]uint64{link ^ addr>>12, link}
	n := len(ways)
	if l.random != 0 {
		n = 1
	}
	for _, to := range ways[:n] {
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
	whole := true
	for i := range uint64(fastBins) {
		followed, err := l.fastbin(x.addr+offset+8*i, minChunk+chunkAlign*i)
		if err != nil {
			return false, err
		}
		whole = whole && followed
	}
	return whole, nil
}

// fastbin follows the one of chunks of a size whose head stands at a place.
func (l *lister) fastbin(at, chunks uint64) (bool, error) {
	for range listTries {
		var head [1]uint64
		if err := l.m.words(at, head[:]); err != nil {
			return false, err
		}
		found, err := l.list(head[0], headBytes, 0, func(size uint64) bool { return size == chunks })
		if err == nil && len(found) > 0 && l.m.word(at) != head[0] {
			err = errList
		}
		if err == nil {
			l.fast += chunks * uint64(len(slices.DeleteFunc(slices.Clone(found), (*Block).cached)))
			if l.random != 0 {
				mark(found, cachedBit)
			} else {
				mark(found, cachedBit|unprovenBit)
			}
			return true, nil
		}
		if !errors.Is(err, errList) && !errors.Is(err, errUnreadable) {
			return false, err
		}
	}
	return false, nil
}
