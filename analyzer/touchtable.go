package analyzer

import (
	"maps"
	"math/bits"
	"slices"
)

// A touchTable says which site first touched each page of a process: 4 bytes a page, in chunks of 64 pages.
// A process whose pages all lie far apart takes 1/16 of its resident set, any other 1/1000.
type touchTable struct {
	chunks map[uint64]*touchChunk // by page number / touchPages
	last   *touchChunk            // the one asked for last, or nil
	lastAt uint64
	room   *touchRoom
	owner  *owner

	// latest is the page that each thread touched last: the kernel may still be about to put one there.
	latest map[uint32]uint64

	begun    bool // its page states were read once
	lost     uint64
	swapIns  uint64
	copies   uint64
	explain  uint64 // bytes, of the last reading, as input.Touches has them
	before   uint64
	readOnce bool
}

const (
	touchPages = 64
	// touchChunkBytes is about what a chunk takes, its place in the map included.
	touchChunkBytes = 64 * 5
	// maxTouchChunks bounds the chunks of all processes: 256 Mi pages.
	maxTouchChunks = 1 << 22
	// maxTouchRanges bounds each list of a Touches: a recording can hold it.
	maxTouchRanges = 1 << 17
	// maxLatest bounds latest: threads come and go.
	maxLatest = 1 << 12
)

// A touchRoom is what the chunks of all processes may take: a part of the room of live blocks, shared out as that is.
type touchRoom struct {
	chunks int // that there still may be, of all processes
	blocks *room
}

func (r *touchRoom) claim(o *owner) bool {
	if r.chunks <= 0 || !r.blocks.claim(o, touchChunkBytes) {
		return false
	}
	r.chunks--
	return true
}

func (r *touchRoom) release(o *owner, chunks int) {
	r.chunks += chunks
	r.blocks.release(o, uint64(chunks)*touchChunkBytes)
}

// fileAround is how many bytes of a file the kernel maps around a fault (mm/memory.c, fault_around_bytes), and
// hugeAround what a huge page takes.
const (
	fileAround = 64 << 10
	hugeAround = 2 << 20
)

type touchChunk struct {
	owned  uint64 // a bit for each page that has an owner
	owners [touchPages]touchOwner
}

// A touchOwner is the site that a page belongs to, plus one, and what is known of the page; 0: none.
type touchOwner uint32

const (
	touchBefore    touchOwner = 1 << 28 // no site: it was there when the trace began
	touchReadOnly  touchOwner = 1 << 29 // it was read, and not written to
	touchInherited touchOwner = 1 << 30 // the parent touched it, before the fork
	touchSwapped   touchOwner = 1 << 31 // it was swapped out at the last reading

	touchSite = touchBefore - 1
)

func ownerOf(id siteID) touchOwner { return touchOwner(id) + 1 }

// site is the owner's number; false: it is no site.
func (o touchOwner) site() (siteID, bool) {
	return siteID(o&touchSite) - 1, o&touchSite != 0
}

func newTouchTable(room *touchRoom, of *owner) *touchTable {
	return &touchTable{chunks: make(map[uint64]*touchChunk), room: room, owner: of, latest: make(map[uint32]uint64)}
}

// touchTable returns an empty table for a process.
func (a *Analyzer) touchTable(p *process) *touchTable {
	return newTouchTable(&a.touchRoom, a.blocks.of(p.info.UID))
}

// chunk returns the chunk of a number, nil where there is none.
func (t *touchTable) chunk(number uint64) *touchChunk {
	if t.last != nil && t.lastAt == number {
		return t.last
	}
	c := t.chunks[number]
	if c != nil {
		t.last, t.lastAt = c, number
	}
	return c
}

func (t *touchTable) get(page uint64) touchOwner {
	c := t.chunk(page / touchPages)
	if c == nil {
		return 0
	}
	return c.owners[page%touchPages]
}

// touchedBy notes what a thread has touched.
func (t *touchTable) touchedBy(tid uint32, page uint64) {
	if _, known := t.latest[tid]; !known && len(t.latest) >= maxLatest {
		clear(t.latest)
	}
	t.latest[tid] = page
}

// set gives a page an owner. It returns false where there is no room.
func (t *touchTable) set(page uint64, o touchOwner) bool {
	number := page / touchPages
	c := t.chunk(number)
	if c == nil {
		if !t.room.claim(t.owner) {
			t.lost++
			return false
		}
		c = new(touchChunk)
		t.chunks[number] = c
		t.last, t.lastAt = c, number
	}
	c.owned |= 1 << (page % touchPages)
	c.owners[page%touchPages] = o
	return true
}

// take removes a page and returns its owner.
func (t *touchTable) take(page uint64) touchOwner {
	number := page / touchPages
	c := t.chunk(number)
	if c == nil {
		return 0
	}
	o := c.owners[page%touchPages]
	c.owners[page%touchPages] = 0
	c.owned &^= 1 << (page % touchPages)
	if c.owned == 0 {
		t.drop(number)
	}
	return o
}

func (t *touchTable) drop(number uint64) {
	delete(t.chunks, number)
	t.room.release(t.owner, 1)
	t.last = nil
}

// numbers are those of the chunks, ascending.
func (t *touchTable) numbers() []uint64 { return slices.Sorted(maps.Keys(t.chunks)) }

// all yields the pages that have an owner, in the order of their addresses: what is made of them is the same
// when a recording is played back.
func (t *touchTable) all(yield func(page uint64, o touchOwner) bool) {
	for _, number := range t.numbers() {
		c := t.chunks[number]
		for m := c.owned; m != 0; m &= m - 1 {
			i := bits.TrailingZeros64(m)
			if !yield(number*touchPages+uint64(i), c.owners[i]) {
				return
			}
		}
	}
}

// clear forgets all pages.
func (t *touchTable) clear() {
	t.room.release(t.owner, len(t.chunks))
	clear(t.chunks)
	clear(t.latest)
	t.last = nil
}
