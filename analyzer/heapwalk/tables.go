package heapwalk

import (
	"encoding/binary"
	"errors"
	"slices"

	"golang.org/x/sys/unix"
)

// A thread's lists of freed blocks hang from a block in the heap, its table:
//
//	2.26 to 2.29    char     counts[64];     entry *entries[64];
//	2.30 to 2.41    uint16_t counts[64];     entry *entries[64];
//	from 2.42 on    uint16_t num_slots[76];  entry *entries[76];
//
// where list i holds blocks of chunks of 32 + 16 i bytes, for i < 64, and has
// as many as its count says. num_slots counts the other way: how many more the list takes.
//
// A freed block's second word is a key:
//
//	2.26 to 2.28    there is none
//	2.29 to 2.33    the address of the table
//	from 2.34 on    a random number, the same in the whole process
//
// Updates of 2.27 and 2.28 have the key of 2.29, and those of 2.28 and 2.29 the
// counts of 2.30. So what a table looks like does not tell its key, but that those
// of the first kind have no random one, and those of the last no other.
//
// Nobody outside knows which block is a table. A program's own block may have
// pointers to blocks of the right sizes at such places, too, but then the
// counts in front of them don't agree.
type tableLayout struct {
	chunk   uint64 // size of the chunk; 16 more where less than a chunk would have been left over
	entries uint64 // offset
	lists   int
	width   uint64 // bytes of a count
	slots   bool   // counts are num_slots
	random  bool   // the key may be a random number
	least   int    // so many lists that are as long as their counts say are there by no chance
}

var tableLayouts = []tableLayout{
	{chunk: 0x250, entries: 64, lists: 64, width: 1, least: 3},
	{chunk: 0x290, entries: 128, lists: 64, width: 2, random: true, least: 3},
	{chunk: 0x300, entries: 152, lists: 76, width: 2, slots: true, random: true, least: 1},
}

const (
	exactLists = 64      // lists whose chunks are of one size
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

// bytes is the size of the table.
func (l tableLayout) bytes() int { return int(l.entries) + 8*l.lists }

// A candidate is a chunk whose block may be a table.
type candidate struct {
	chunk
	first bool // of its arena, where the table of the thread that began the arena is
}

// A table is what stood in such a block at one reading.
type table struct {
	candidate
	layout tableLayout
	bytes  []byte
}

// head is the first block of a list, or 0.
func (t *table) head(i int) uint64 { return word(t.bytes[t.layout.entries:], i) }

// counted is a list's count as it stands there.
func (t *table) counted(i int) int {
	if t.layout.width == 1 {
		return int(t.bytes[i])
	}
	return int(binary.LittleEndian.Uint16(t.bytes[2*i:]))
}

// length is how many blocks a list has by its count.
func (t *table) length(i int) int {
	if !t.layout.slots {
		return t.counted(i)
	}
	full := 0 // what an empty list takes, which is the same of all
	for k := range t.layout.lists {
		full = max(full, t.counted(k))
	}
	return full - t.counted(i)
}

// agrees reports whether lists are empty where their counts say so. The one that the thread is just changing
// may not be.
func (t *table) agrees() bool {
	off, filled := 0, 0
	for i := range t.layout.lists {
		switch empty := t.length(i) == 0; {
		case (t.head(i) == 0) != empty:
			off++
		case !empty:
			filled++
		}
	}
	return off <= 1 && filled > 0
}

// read reads a table, once more.
func (l *lister) read(c candidate) (table, error) {
	t := table{candidate: c, layout: layoutOf(c.size)}
	t.bytes = make([]byte, t.layout.bytes())
	n, err := l.m.readv(t.bytes, []unix.RemoteIovec{{Base: uintptr(c.block()), Len: len(t.bytes)}})
	if err == nil && n != len(t.bytes) || errors.Is(err, unix.EFAULT) {
		err = errUnreadable
	}
	return t, err
}

// tablesAtOnce is how many blocks one call reads.
const tablesAtOnce = 128

// tablesOf returns those chunks whose blocks look like tables. Many blocks have such a size, so that they are read many
// at once; what can't be read is left out.
func (l *lister) tablesOf(chunks []candidate) (found []candidate, err error) {
	for len(chunks) > 0 {
		group := chunks[:min(tablesAtOnce, len(chunks))]
		buf, err := l.readGroup(group)
		if err != nil {
			return nil, err
		}
		read := 0
		for _, c := range group {
			t := table{candidate: c, layout: layoutOf(c.size)}
			if len(buf) < t.layout.bytes() {
				break
			}
			t.bytes, buf = buf[:t.layout.bytes()], buf[t.layout.bytes():]
			if l.mayBeTable(&t) {
				found = append(found, c)
			}
			read++
		}
		if read < len(group) {
			read++ // that one is gone, and those after it were not read
		}
		chunks = chunks[read:]
	}
	return found, nil
}

// readGroup reads blocks one after the other, up to the first that is not there.
func (l *lister) readGroup(group []candidate) ([]byte, error) {
	remote := make([]unix.RemoteIovec, 0, len(group))
	total := 0
	for _, c := range group {
		n := layoutOf(c.size).bytes()
		remote = append(remote, unix.RemoteIovec{Base: uintptr(c.block()), Len: n})
		total += n
	}
	buf := make([]byte, total)
	n, err := l.m.readv(buf, remote)
	if err != nil && !errors.Is(err, unix.EFAULT) && !errors.Is(err, errUnreadable) {
		return nil, err
	}
	return buf[:max(n, 0)], nil
}

// mayBeTable reports whether all that stands where lists would begin leads to blocks of the lists' sizes. Those
// of large blocks may begin with one that has a mapping of its own, which not every walk knows.
func (l *lister) mayBeTable(t *table) bool {
	some := false
	for i := range t.layout.lists {
		head := t.head(i)
		if head == 0 {
			continue
		}
		some = true
		size, ok := l.sizeOf(head)
		if !ok && i >= exactLists {
			continue
		}
		if !ok || !fitsList(size, i) {
			return false
		}
	}
	return some
}

// fitsList reports whether a chunk of a size may be in a list.
func fitsList(size uint64, list int) bool {
	if list < exactLists {
		return size == minChunk+chunkAlign*uint64(list)
	}
	return size >= minChunk+chunkAlign*exactLists
}

// settled reads a table until its counts agree with its lists; false where they don't.
func (l *lister) settled(c candidate) (bool, error) {
	for range listTries {
		t, err := l.read(c)
		if err != nil {
			return false, ignoreUnreadable(err)
		}
		if t.agrees() {
			return l.mayBeTable(&t), nil
		}
	}
	return false, nil
}

// seconds are the second words of the lists' first blocks.
func (l *lister) seconds(t *table) ([]uint64, error) {
	var remote []unix.RemoteIovec
	for i := range t.layout.lists {
		if head := t.head(i); head != 0 {
			remote = append(remote, unix.RemoteIovec{Base: uintptr(head + 8), Len: 8})
		}
	}
	if len(remote) == 0 {
		return nil, nil
	}
	buf := make([]byte, 8*len(remote))
	n, err := l.m.readv(buf, remote)
	if err != nil && !errors.Is(err, unix.EFAULT) && !errors.Is(err, errUnreadable) {
		return nil, err
	}
	out := make([]uint64, max(n, 0)/8)
	for i := range out {
		out[i] = word(buf, i)
	}
	return out, nil
}

// findRandom finds the process's random key: most of the lists' first blocks have it.
func (l *lister) findRandom(tables []candidate) error {
	voters := slices.DeleteFunc(slices.Clone(tables), func(c candidate) bool { return !layoutOf(c.size).random })
	for range listTries {
		all, votes := 0, make(map[uint64]int)
		for _, c := range voters {
			t, words, err := l.firsts(c)
			if err != nil {
				return err
			}
			if words == nil || !t.agrees() {
				continue
			}
			all += len(words)
			for _, w := range words {
				if w >= leastKey && w != c.block() {
					votes[w]++
				}
			}
		}
		for key, n := range votes {
			if 2*n > all {
				l.random = key
				l.keys[key] = true
				return nil
			}
		}
	}
	return nil
}

// firsts reads a table, and the second words of its lists' first blocks; none where it can't be read, or is
// none any more.
func (l *lister) firsts(c candidate) (t table, words []uint64, err error) {
	if t, err = l.read(c); err != nil || !l.mayBeTable(&t) {
		return t, nil, ignoreUnreadable(err)
	}
	words, err = l.seconds(&t)
	return t, words, err
}

// ownKey is the table's address where that is the key, which most of its lists' first blocks have, else 0.
func (l *lister) ownKey(c candidate) (uint64, error) {
	for range listTries {
		_, words, err := l.firsts(c)
		if err != nil {
			return 0, err
		}
		own := 0
		for _, w := range words {
			if w == c.block() {
				own++
			}
		}
		if 2*own > len(words) {
			return c.block(), nil
		}
	}
	return 0, nil
}
