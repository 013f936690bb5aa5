package reach

import (
	"math/bits"
	"sync/atomic"
	"unsafe"
)

// The sweep reads all memory once, in the order of its addresses, however
// pointers lead about in it. A block that is known to be reachable when its
// turn comes has its pointers followed at once. Of one that is not, the blocks
// that it points to are noted in the log; should it turn out to be reachable
// later, they are found there, without reading the target again:
//
//	address ──▶   A        B        C        D
//	              │        ▲ │               ▲
//	              └────────│─│───────────────┘   found as A is read
//	   root ───────────────│─┼──▶ C ─┐
//	                       └─│───────┘           C is read after B: B's
//	                         └─▶ … in the log    pointers come from the log
//
// Words are looked up in batches, one step for all of them after the other, so
// that the cache misses of many are under way at once.

// edges are the pointers of blocks that were not known to be reachable when
// they were read.
type edges struct {
	at     []uint32 // by block: where in log its edges are; 0: it has none; reread
	log    []uint32 // a number of blocks, then the blocks; begins at 1
	next   atomic.Uint64
	logged bitmap // blocks with edges that were not followed yet
	open   bool   // what is found is followed by way of the log
}

const (
	// reread stands for a block that must be read again: the log is full, it
	// reaches into another window, or there is more to its pointers than which
	// blocks they are for.
	reread = ^uint32(0)

	logChunk   = 1 << 15 // entries that a worker takes at a time
	logPerHalf = 3       // entries for two blocks: 6 bytes a block
)

func (e *edges) make(a *area, n int) (err error) {
	if e.at, err = table[uint32](a, uint64(n)); err != nil {
		return err
	}
	size := max(uint64(n)*logPerHalf/2, 4*logChunk)
	if e.log, err = table[uint32](a, min(size, 1<<31)); err != nil {
		return err
	}
	e.next.Store(1)
	e.logged, err = newBitmap(a, n)
	return err
}

// A candidate is a word that may be an address of the heap.
type candidate struct {
	word  uint64
	off   uint32 // where in its window it stands
	owner uint32 // the block that it is in, or noBlock
}

// batchSize is how many candidates are looked up at a time: more than a core
// can wait for at once, few enough to stay in its first cache.
const batchSize = 128

type batch struct {
	n     int
	words [batchSize]candidate
	entry [batchSize]entry
	block [batchSize]uint32
}

// notStart stands for a candidate that is no pointer to a block's start as it
// stands, but may be one into a block; nowhere for one to no block.
const (
	notStart = noBlock - 1
	nowhere  = noBlock - 2
)

// sweep follows all roots and all blocks that they lead to.
func (m *marker) sweep() {
	m.sweeping = true
	for _, heap := range []bool{false, true} {
		var next atomic.Int64
		m.each(func(w *worker) {
			for !m.mem.gone.Load() {
				// From above: large tables lie there, in mappings of their own,
				// and lead to much of what lies below.
				i := len(m.s.windows) - int(next.Add(1))
				if i < 0 {
					return
				}
				if m.x.mayStart(m.s.windows[i].addr) == heap {
					w.sweepWindow(uint32(i), heap)
				}
			}
		})
	}
	m.sweeping, m.edges.open = false, true
	m.followLogged()
}

// sweepWindow follows the roots in a window and the blocks that start there.
func (w *worker) sweepWindow(n uint32, heap bool) {
	win := &w.s.windows[n]
	want := win.roots
	if heap {
		want = win.present
	}
	if want == 0 && !heap {
		return
	}
	w.current = n
	w.buf.fill(w.mem, win, want)
	at, end := win.addr, win.addr+winBytes
	if i, start, ok := w.x.find(at); ok {
		at = start + w.x.extent(i)
	}
	for page := win.addr; heap && page < end; page += pageBytes {
		p := w.x.pageAt(page)
		if p == nil {
			continue
		}
		p.all(page, func(addr uint64, i uint32) bool {
			w.rootRange(win, at, addr)
			at = max(at, addr+w.x.extent(i))
			w.sweepBlock(win, addr, i)
			return true
		})
	}
	w.rootRange(win, at, end)
	w.flush()
	w.endBlock()
}

// sweepBlock follows the pointers of a block, or notes them.
func (w *worker) sweepBlock(win *window, addr uint64, i uint32) {
	end, limit := addr+w.x.size(i), win.addr+winBytes
	if end <= limit {
		w.gather(w.buf, addr, end, i)
		return
	}
	w.flush()
	w.endBlock()
	if !w.seen.has(i) {
		w.edges.at[i] = reread
		w.edges.logged.add(i)
		return
	}
	w.gather(w.buf, addr, limit, i)
	w.flush()
	for at := limit; at < end; at += winBytes {
		if next := w.s.at(at); next != nil {
			to := min(end, at+winBytes)
			w.far.addr = 0 // it may have changed since
			w.far.fill(w.mem, next, pageMask(0, to-at))
			w.gather(w.far, at, to, i)
			w.flushFrom(w.far)
		}
	}
}

// gather takes the words from at to end, which lie in b's window, as
// candidates, as far as b has the pages.
func (w *worker) gather(b *buffer, at, end uint64, owner uint32) {
	at = (at + 7) &^ 7
	for at+8 <= end {
		off := at - b.addr
		rest := b.pages >> (off >> pageShift)
		to := end
		if rest != ^uint64(0)>>(off>>pageShift) { // some page is missing
			to = min(end, at&^(pageBytes-1)+pageBytes)
		}
		if rest&1 != 0 {
			w.gatherPresent(b, off, (to-at)/8, owner)
		}
		at = to
	}
}

// gatherPresent is the hot loop: most words are no address of the heap.
func (w *worker) gatherPresent(b *buffer, off, n uint64, owner uint32) {
	lo, span := w.x.lo, w.x.hi-w.x.lo
	p := unsafe.Pointer(&b.data[off])
	for ; n >= 4; n -= 4 {
		v0, v1 := *(*uint64)(p), *(*uint64)(unsafe.Add(p, 8))
		v2, v3 := *(*uint64)(unsafe.Add(p, 16)), *(*uint64)(unsafe.Add(p, 24))
		if v0&addrMask-lo < span {
			w.candidate(v0, off, owner, b)
		}
		if v1&addrMask-lo < span {
			w.candidate(v1, off+8, owner, b)
		}
		if v2&addrMask-lo < span {
			w.candidate(v2, off+16, owner, b)
		}
		if v3&addrMask-lo < span {
			w.candidate(v3, off+24, owner, b)
		}
		p, off = unsafe.Add(p, 32), off+32
	}
	for ; n > 0; n-- {
		if v := *(*uint64)(p); v&addrMask-lo < span {
			w.candidate(v, off, owner, b)
		}
		p, off = unsafe.Add(p, 8), off+8
	}
}

func (w *worker) candidate(word, off uint64, owner uint32, b *buffer) {
	q := w.batch
	q.words[q.n&(batchSize-1)] = candidate{word, uint32(off), owner}
	if q.n++; q.n == batchSize {
		w.flushFrom(b)
	}
}

func (w *worker) flush() { w.flushFrom(w.buf) }

// flushFrom looks all candidates up, which stand in b, and follows or notes them.
func (w *worker) flushFrom(b *buffer) {
	q := w.batch
	n := q.n
	q.n = 0
	w.findEntries(q, n)
	w.touched += w.touchPages(q, n)
	w.findStarts(q, n)
	w.touched += w.touchMarks(q, n)
	for k := range n {
		c := &q.words[k&(batchSize-1)]
		i := q.block[k&(batchSize-1)]
		if c.owner != w.owner {
			w.endBlock()
			w.beginBlock(c.owner)
		}
		switch {
		case i == nowhere || i == c.owner || w.skip:
		case i == notStart:
			w.unclear(c, b)
		case w.noting:
			w.noteEdge(i)
		case !w.seen.has(i):
			w.seen.add(i)
		}
	}
}

// findEntries finds the page of each candidate.
func (w *worker) findEntries(q *batch, n int) {
	x := w.x
	for k := range n {
		addr := q.words[k&(batchSize-1)].word & addrMask
		e := x.top[(addr-x.base)>>regionShift]
		if e != 0 && e&coverFlag == 0 {
			e = x.regions[e].pages[addr>>pageShift%regionPages]
		}
		q.entry[k&(batchSize-1)] = e
	}
}

// touchPages brings what findStarts reads into the cache: a loop this short
// has more reads under way at once than one that does something with them. It
// returns a value that depends on all that was read, so that it is.
func (w *worker) touchPages(q *batch, n int) (sum uint64) {
	x := w.x
	for k := range n {
		if e := q.entry[k&(batchSize-1)]; e&coverFlag == 0 {
			p := &x.pages[e]
			sum += p.starts[q.words[k&(batchSize-1)].word>>9%8] + uint64(p.first)
		}
	}
	return sum
}

// touchMarks does the same for the marks.
func (w *worker) touchMarks(q *batch, n int) (sum uint64) {
	for k := range n {
		if i := q.block[k&(batchSize-1)]; i < nowhere {
			sum += atomic.LoadUint64(&w.seen[i>>6])
		}
	}
	return sum
}

// findStarts finds the block that starts at each candidate's address.
func (w *worker) findStarts(q *batch, n int) {
	x := w.x
	for k := range n {
		e, word := q.entry[k&(batchSize-1)], q.words[k&(batchSize-1)].word
		i := uint32(notStart)
		switch {
		case e == 0:
			i = nowhere
		case e&coverFlag == 0 && word&7 == 0 && word>>addrBits == 0:
			p := &x.pages[e]
			if p.starts[word>>9%8]>>(word>>3%64)&1 != 0 {
				i = p.number(word)
			}
		}
		q.block[k&(batchSize-1)] = i
	}
}

// beginBlock prepares for the pointers that stand in a block, or in roots.
func (w *worker) beginBlock(owner uint32) {
	w.owner, w.skip = owner, false
	w.noting = owner != noBlock && !w.seen.has(owner)
	w.noted = w.noted[:0]
}

// endBlock writes what was noted of a block to the log.
func (w *worker) endBlock() {
	owner := w.owner
	w.owner = nowhere
	if owner >= nowhere || !w.noting || len(w.noted) == 0 {
		return
	}
	w.noting = false
	at, ok := w.room(len(w.noted) + 1)
	if !ok {
		w.rereadLater(owner)
		return
	}
	w.edges.log[at] = uint32(len(w.noted))
	copy(w.edges.log[at+1:], w.noted)
	w.edges.at[owner] = at
	w.edges.logged.add(owner)
}

func (w *worker) rereadLater(owner uint32) {
	w.edges.at[owner] = reread
	w.edges.logged.add(owner)
	w.noting, w.skip = false, true
}

// room takes n entries of the log.
func (w *worker) room(n int) (at uint32, ok bool) {
	if w.logLeft < n {
		chunk := max(uint64(logChunk), uint64(n))
		end := w.edges.next.Add(chunk)
		if end > uint64(len(w.edges.log)) {
			w.logLeft = 0
			return 0, false
		}
		w.logAt, w.logLeft = uint32(end-chunk), int(chunk)
	}
	at = w.logAt
	w.logAt += uint32(n)
	w.logLeft -= n
	return at, true
}

// maxNoted bounds what is noted of one block.
const maxNoted = 1 << 12

func (w *worker) noteEdge(i uint32) {
	if len(w.noted) == maxNoted {
		w.rereadLater(w.owner)
		return
	}
	w.noted = append(w.noted, i)
}

// unclear takes a candidate that is not one to a block's start as it stands.
func (w *worker) unclear(c *candidate, b *buffer) {
	i, start, ok := w.x.find(c.word & addrMask)
	switch {
	case !ok || i == c.owner:
	case !w.noting:
		if !w.seen.has(i) {
			w.inside(i, start, c.word, c.owner, b, unsafe.Pointer(&b.data[c.off]))
		}
	case c.word-start < 8:
		w.noteEdge(i)
	default: // it matters only if the block is reachable
		w.rereadLater(c.owner)
	}
}

// followLogged follows the edges of the blocks that turned out to be reachable
// after they were read, and of all that these lead to.
func (m *marker) followLogged() {
	const step = 1 << 10
	var next atomic.Int64
	m.drainAfter(func(w *worker) {
		for !m.mem.gone.Load() {
			from := int(next.Add(step)) - step
			if from >= len(m.edges.logged) {
				return
			}
			for k := from; k < min(from+step, len(m.edges.logged)); k++ {
				v := atomic.LoadUint64(&m.edges.logged[k]) & atomic.LoadUint64(&m.seen[k])
				for ; v != 0; v &= v - 1 {
					w.followEdges(uint32(k*64 + bits.TrailingZeros64(v)))
				}
				if len(w.stack) >= stackBatch {
					w.emptyStack()
				}
			}
		}
	})
}

// followEdges puts a reachable block on the stack, unless that was done.
func (w *worker) followEdges(i uint32) {
	if !w.edges.logged.has(i) || !w.edges.logged.drop(i) {
		return
	}
	if w.edges.at[i] == reread {
		w.follow(i, w.x.addrOf(i))
		return
	}
	w.stack = append(w.stack, i)
}

const (
	stackBatch = 32
	// shareFrom is the length of a stack from which on others that have
	// nothing to do get half of it.
	shareFrom = 1 << 12
)

// emptyStack follows the edges of the blocks on the stack, some at a time: the
// reads of memory that they take are then under way together.
func (w *worker) emptyStack() {
	e := &w.edges
	var at [stackBatch]uint32
	for len(w.stack) > 0 && !w.mem.gone.Load() {
		n := min(len(w.stack), stackBatch)
		from := len(w.stack) - n
		for k, i := range w.stack[from:] {
			at[k&(stackBatch-1)] = e.at[i]
		}
		w.stack = w.stack[:from]
		sum := uint32(0) // see touchPages
		for _, a := range at[:n] {
			sum += e.log[a]
		}
		w.touched += uint64(sum)
		for _, a := range at[:n] {
			for _, i := range e.log[a+1 : a+1+e.log[a]] {
				if !w.seen.has(i) && w.seen.add(i) {
					w.followEdges(i)
				}
			}
		}
		if len(w.stack) > shareFrom && w.idle.Load() > 0 {
			w.share()
		}
	}
}

// share gives half of the stack to whoever has nothing to do.
func (w *worker) share() {
	half := len(w.stack) / 2
	w.sharing.Lock()
	if len(w.shared) == 0 {
		w.waiting.Add(1)
	}
	w.shared = append(w.shared, w.stack[:half]...)
	w.sharing.Unlock()
	w.stack = w.stack[:copy(w.stack, w.stack[half:])]
}

// takeShared takes what another worker has given away.
func (w *worker) takeShared() bool {
	w.sharing.Lock()
	defer w.sharing.Unlock()
	if len(w.shared) == 0 {
		return false
	}
	w.waiting.Add(-1)
	w.stack = append(w.stack, w.shared...)
	w.shared = w.shared[:0]
	return true
}

// memory is how much the edges take up, in bytes.
func (e *edges) memory() uint64 {
	return uint64(len(e.at))*4 + min(e.next.Load(), uint64(len(e.log)))*4
}
