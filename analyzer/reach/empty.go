//go:build linux && !viewer

package reach

import (
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
// and only a further one makes the array possible.

// emptyArrays are the blocks that may be such arrays, by the address after them.
type emptyArrays struct {
	at     map[uint64]*emptyArray
	filter [1 << 10]uint64 // a bit for each hash of an address
	held   bitmap          // the blocks that are reachable
}

type emptyArray struct {
	start  uint64
	i      uint32
	shared bool          // a live block starts at its end
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
		size := c.index.size(i)
		if c.marker.seen.has(i) || size != shortCookie && size != longCookie {
			continue
		}
		if read++; read > maxEmptyArrays {
			break
		}
		var number [1]uint64
		if end := addr + size; c.mem.words(end-8, number[:]) == nil && number[0] == 0 {
			_, next, ok := c.index.find(end)
			e.at[end] = &emptyArray{start: addr, i: i, shared: ok && next == end}
			e.filter[emptyHash(end)>>6] |= 1 << (emptyHash(end) & 63)
		}
	}
	if len(e.at) == 0 {
		return nil
	}
	return e
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
		if !a.shared {
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
	for end, a := range c.marker.empty.at {
		held, kept := a.held.Load(), a.kept.Load()
		switch {
		case held+kept == 0, a.shared && held+kept == 1:
			continue
		case held > 0 && !a.shared && end-a.start == shortCookie:
			c.held.add(a.i)
		}
		c.marker.seen.add(a.i)
	}
}
