//go:build linux && !viewer

package reach

import (
	"maps"
	"slices"
	"sync/atomic"
	"unsafe"
)

// What new T[0] returns where T has a destructor is no pointer into its block:
// the block holds the number of elements alone, which is 0, and the pointer is
// the first address after it. Others that keep such a pointer, such as a vector
// whose room is used up, keep one to the start, too. So these are looked for
// last, and only for blocks of that size and content that are still without a
// pointer; they lead nowhere.
//
// In LeakSanitizer such a pointer is as good as one to the start. Its own
// allocator leaves room behind a block of 8 bytes. Where the program's does not,
// the next block may start at that address: then one word may be that block's,
// and only a further one makes the array possible. It takes no further one where the next block is
// such an array, too, that words with its own end are enough for: those are in a row, as a program makes
// some, one after the other, and each word is one's.

// emptyArrays are the blocks that may be such arrays, by the address after them: those without a pointer, and what
// follows them in a row.
type emptyArrays struct {
	at     map[uint64]*emptyArray
	filter [1 << 10]uint64 // a bit for each hash of an address
	held   bitmap          // the blocks that are reachable
}

type emptyArray struct {
	start  uint64
	i      uint32
	lost   bool          // it is without a pointer
	shared bool          // a live block starts at its end
	next   *emptyArray   // that one, if it may be such an array, too
	held   atomic.Uint32 // words with the address after it, in what is reachable,
	kept   atomic.Uint32 // and in what is possible
}

const (
	shortCookie = 8  // of most types
	longCookie  = 16 // of those that are aligned to 16 bytes
	// maxEmptyArrays bounds how many blocks' contents are looked at.
	maxEmptyArrays = 1 << 16
)

// emptyArrays returns nil where there are none.
func (c *scan) emptyArrays() *emptyArrays {
	e := &emptyArrays{at: make(map[uint64]*emptyArray), held: c.held}
	read := 0
	for addr, i := range c.index.all {
		if c.marker.seen.has(i) || !mayBeEmpty(c.index.size(i)) {
			continue
		}
		if read++; read > maxEmptyArrays {
			break
		}
		if a := c.emptyArray(e, i, addr); a != nil {
			a.lost = true
		}
	}
	if len(e.at) == 0 {
		return nil
	}
	for _, end := range slices.Sorted(maps.Keys(e.at)) {
		read = c.emptyRow(e, e.at[end], read)
	}
	return e
}

func mayBeEmpty(size uint64) bool { return size == shortCookie || size == longCookie }

// emptyArray notes a block that may be an empty array; nil: it is none.
func (c *scan) emptyArray(e *emptyArrays, i uint32, addr uint64) *emptyArray {
	end := addr + c.index.size(i)
	if a := e.at[end]; a != nil {
		return a
	}
	var number [1]uint64
	if c.mem.words(end-8, number[:]) != nil || number[0] != 0 {
		return nil
	}
	_, next, ok := c.index.find(end)
	a := &emptyArray{start: addr, i: i, shared: ok && next == end}
	e.at[end] = a
	e.filter[emptyHash(end)>>6] |= 1 << (emptyHash(end) & 63)
	return a
}

// emptyRow notes what follows an empty array in a row. It takes and returns how many blocks' contents have been
// looked at.
func (c *scan) emptyRow(e *emptyArrays, a *emptyArray, read int) int {
	for a.shared && a.next == nil && read < maxEmptyArrays {
		i, start, ok := c.index.find(a.start + c.index.size(a.i))
		if !ok || !mayBeEmpty(c.index.size(i)) {
			break
		}
		read++
		if a.next = c.emptyArray(e, i, start); a.next == nil {
			break
		}
		a = a.next
	}
	return read
}

func emptyHash(addr uint64) uint64 { return (addr >> 3) * 0x9e3779b97f4a7c15 >> 48 }

// after takes a word that may be the address after an empty array.
func (e *emptyArrays) after(w *worker, word uint64, owner uint32, p unsafe.Pointer) {
	h := emptyHash(word)
	if e.filter[h>>6]>>(h&63)&1 == 0 || uintptr(p)%8 != 0 {
		return
	}
	a := e.at[word]
	switch {
	case a == nil || owner == a.i:
	case !w.unaligned: // the word is a leaked block's
		if a.lost && !a.shared {
			w.found(a.i, a.start)
		}
	case owner == noBlock || e.held.has(owner):
		a.held.Add(1)
	default:
		a.kept.Add(1)
	}
}

// settleEmpty says how those are held that words were found for.
func (c *scan) settleEmpty() {
	e := c.marker.empty
	stands := make(map[*emptyArray]bool, len(e.at)) // words with its own end are enough for it
	for _, end := range slices.Backward(slices.Sorted(maps.Keys(e.at))) {
		a := e.at[end]
		held, words := a.held.Load(), a.held.Load()+a.kept.Load()
		if words == 0 || words == 1 && a.shared && !stands[a.next] {
			continue
		}
		stands[a] = true
		if !a.lost {
			continue
		}
		if held > 0 && !a.shared && end-a.start == shortCookie {
			c.held.add(a.i)
		}
		c.marker.seen.add(a.i)
	}
}
