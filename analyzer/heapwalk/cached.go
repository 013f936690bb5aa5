package heapwalk

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"
)

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
	maxLists   = 76
	exactLists = 64      // lists whose chunks are of one size
	maxCached  = 1 << 22 // in all lists of a process
	listTries  = 8
	leastKey   = 1 << 47 // a random key is none below, as what a program writes most often is
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
	marked int    // blocks with a key
	fast   uint64 // bytes of chunks in fastbins
	open   openLists
}

// openLists are those of threads that could not be followed to their ends: a
// block of such a size may be in one.
type openLists struct {
	sizes map[uint64]bool // of chunks
	from  uint64          // and all chunks of so many bytes or more; 0: none
}

func (o *openLists) add(list int) {
	if list >= exactLists {
		o.from = minChunk + chunkAlign*exactLists
		return
	}
	if o.sizes == nil {
		o.sizes = make(map[uint64]bool)
	}
	o.sizes[minChunk+chunkAlign*uint64(list)] = true
}

// has reports whether a block may be in such a list.
func (o *openLists) has(b *Block) bool {
	chunk := b.Size() + 8
	return o.sizes[chunk] || o.from != 0 && chunk >= o.from
}

// threads follows the lists that hang from those of the chunks that have some.
func (l *lister) threads(chunks []chunk) error {
	votes := make(map[uint64]int)
	var tables []chunk
	err := l.eachHeads(chunks, func(c chunk, heads []uint64) {
		if !l.isTable(heads) {
			return
		}
		tables = append(tables, c)
		for _, head := range heads {
			if key := l.m.word(head + 8); head != 0 && key >= leastKey {
				votes[key]++
			}
		}
	})
	if err != nil {
		return err
	}
	for key, n := range votes {
		if n > votes[l.random] {
			l.random = key
		}
	}
	if l.random != 0 {
		l.keys[l.random] = true
	}
	for _, c := range tables {
		if err := l.thread(c); err != nil {
			return err
		}
	}
	return nil
}

// tablesAtOnce is how many blocks one call reads the heads of.
const tablesAtOnce = 128

// eachHeads calls fn with what would be the heads of lists in each chunk's block. Many blocks have such a size, so
// that they are read many at once; what can't be read is left out.
func (l *lister) eachHeads(chunks []chunk, fn func(c chunk, heads []uint64)) error {
	var heads [maxLists]uint64
	for len(chunks) > 0 {
		group := chunks[:min(tablesAtOnce, len(chunks))]
		buf, err := l.readHeads(group)
		if err != nil {
			return err
		}
		read := 0
		for _, c := range group {
			own := heads[:layoutOf(c.size).lists]
			if len(buf) < 8*len(own) {
				break
			}
			for k := range own {
				own[k] = word(buf, k)
			}
			buf = buf[8*len(own):]
			fn(c, own)
			read++
		}
		if read < len(group) {
			read++ // that one is gone, and those after it were not read
		}
		chunks = chunks[read:]
	}
	return nil
}

// readHeads reads the heads of a group one after the other, up to the first that is not there.
func (l *lister) readHeads(group []chunk) ([]byte, error) {
	remote := make([]unix.RemoteIovec, 0, len(group))
	total := 0
	for _, c := range group {
		layout := layoutOf(c.size)
		remote = append(remote, unix.RemoteIovec{Base: uintptr(c.block() + layout.entries), Len: 8 * layout.lists})
		total += 8 * layout.lists
	}
	buf := make([]byte, total)
	n, err := l.m.readv(buf, remote)
	if err != nil && !errors.Is(err, unix.EFAULT) && !errors.Is(err, errUnreadable) {
		return nil, err
	}
	return buf[:max(n, 0)], nil
}

// isTable reports whether heads are those of a thread's lists.
func (l *lister) isTable(heads []uint64) bool {
	any := false
	for i, head := range heads {
		if head == 0 {
			continue
		}
		any = true
		if size, ok := l.sizeOf(head); !ok || i < exactLists && size != minChunk+chunkAlign*uint64(i) {
			return false
		}
	}
	return any
}

// thread follows all lists of one thread.
func (l *lister) thread(c chunk) error {
	layout := layoutOf(c.size)
	key := l.random
	if key == 0 {
		key = l.ownKey(c)
	}
	before := l.marked
	for i := range layout.lists {
		err := errList
		for tries := 0; err != nil && tries < listTries; tries++ {
			err = l.fromHead(c.block()+layout.entries+8*uint64(i), key)
			if err != nil && !errors.Is(err, errList) && !errors.Is(err, errUnreadable) {
				return err
			}
		}
		if err != nil {
			l.open.add(i)
		}
	}
	if key == 0 || l.marked > before { // else it only looks like one
		l.tables = append(l.tables, c.block())
	}
	return nil
}

// ownKey is the table's address where that is the key (2.29 to 2.33), else 0.
func (l *lister) ownKey(c chunk) uint64 {
	layout := layoutOf(c.size)
	heads := make([]uint64, layout.lists)
	if l.m.words(c.block()+layout.entries, heads) != nil {
		return 0
	}
	for _, head := range heads {
		if head != 0 && l.m.word(head+8) == c.block() {
			l.keys[c.block()] = true
			return c.block()
		}
	}
	return 0
}

// fromHead follows the list whose head stands at a place.
func (l *lister) fromHead(at, key uint64) error {
	var head [1]uint64
	if err := l.m.words(at, head[:]); err != nil {
		return err
	}
	if key != 0 {
		_, err := l.list(head[0], 0, key)
		return err
	}
	found, err := l.list(head[0], 0, 0)
	if err != nil {
		return err
	}
	return l.markIf(found, at, head[0])
}

// markIf marks blocks as freed that were on a list without a key, if its head has not changed meanwhile.
func (l *lister) markIf(found []*Block, at, head uint64) error {
	if len(found) > 0 && l.m.word(at) != head {
		return errList
	}
	for _, b := range found {
		b.meta |= cachedBit
	}
	return nil
}

// sizeOf returns the size of the chunk whose block begins at addr.
func (l *lister) sizeOf(addr uint64) (uint64, bool) {
	i, ok := l.blocks.find(addr)
	if !ok {
		return 0, false
	}
	return l.blocks.at(i).Size() + 8, true
}

// list follows a list to its end. Links point toward blocks, less back bytes.
// With a key it marks what is in the list; without, it returns that.
func (l *lister) list(addr, back, key uint64) (found []*Block, err error) {
	mark, steps, until := addr, 0, 1 // Brent's search for a cycle
	for addr != 0 {
		if l.cached++; l.cached > maxCached {
			return nil, errList
		}
		block := addr + back
		i, ok := l.blocks.find(block)
		if !ok {
			return nil, errList
		}
		var w [2]uint64
		if err := l.m.words(block, w[:]); err != nil {
			return nil, err
		}
		next, ok := l.next(w[0], block, back)
		if !ok || key != 0 && w[1] != key {
			return nil, errList
		}
		b := l.blocks.at(i)
		if key != 0 {
			b.meta |= cachedBit
			l.marked++
		} else {
			found = append(found, b)
		}
		if addr = next; addr == mark {
			return nil, errList
		}
		if steps++; steps == until {
			mark, steps, until = addr, 0, 2*until
		}
	}
	return found, nil
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
	whole := true
	for i := range uint64(fastBins) {
		followed, err := l.fastbin(x.addr + offset + 8*i)
		if err != nil {
			return false, err
		}
		whole = whole && followed
	}
	return whole, nil
}

// fastbin follows the one whose head stands at a place.
func (l *lister) fastbin(at uint64) (bool, error) {
	for range listTries {
		var head [1]uint64
		if err := l.m.words(at, head[:]); err != nil {
			return false, err
		}
		found, err := l.list(head[0], headBytes, 0)
		fresh := slices.DeleteFunc(slices.Clone(found), (*Block).cached)
		if err == nil {
			err = l.markIf(found, at, head[0])
		}
		if err == nil {
			for _, b := range fresh {
				l.fast += b.Size() + 8
			}
			return true, nil
		}
		if !errors.Is(err, errList) && !errors.Is(err, errUnreadable) {
			return false, err
		}
	}
	return false, nil
}
