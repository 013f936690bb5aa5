//go:build linux && !viewer

package reach

import "unsafe"

// batchSize is how many words are looked up at a time: more than a core can
// wait for at once, few enough to stay in its first cache.
const batchSize = 128

// pickMost is how many words are looked at before some are looked up: a page of them.
const pickMost = pageBytes / 8

// A batch is of words that may be addresses of the heap, the candidates. They
// are looked up one step for all of them after the other. In each step it is
// worked out what is to be read, then that is touched in a loop of few
// instructions, then used: so a core has as many reads of memory under way at
// once as it can.
type batch struct {
	n     int
	word  [batchSize]uint64
	owner [batchSize]uint32   // the block that the word is in, or noBlock
	off   [batchSize]uint32   // where in its window it stands
	kind  [batchSize]RootKind // of the roots that it is in
	at    [batchSize]uint64   // offset of the line to be looked at in this step
	ref   [batchSize]pageRef
	block [batchSize]uint32 // the one that starts there, notStart or nowhere
	found [2 * pickMost]uint16
}

// notStart stands for a candidate that is no pointer to a block's start as it
// stands, but may be one into a block; nowhere for one to no block.
const (
	notStart = noBlock - 1
	nowhere  = noBlock - 2
)

// candidate adds the word at an offset in b, if it is between the first and
// the last block.
func (w *worker) candidate(b *buffer, off uint64, owner uint32) {
	word := *(*uint64)(unsafe.Pointer(&b.data[off]))
	if word&addrMask-w.x.lo >= w.x.hi-w.x.lo {
		return
	}
	q := w.batch
	n := q.n & (batchSize - 1)
	q.word[n], q.owner[n], q.off[n] = word, owner, uint32(off)
	if owner == noBlock {
		q.kind[n] = w.kindOf(b.addr + off)
	}
	if q.n++; q.n == batchSize {
		w.flushFrom(b)
	}
}

func (w *worker) flush() { w.flushFrom(w.buf) }

// flushFrom looks all candidates up, which stand in b, and follows or notes them.
func (w *worker) flushFrom(b *buffer) {
	q := w.batch
	n := min(q.n, batchSize)
	q.n = 0
	w.findRefs(q, n)
	w.findStarts(q, n)
	w.findBlocks(q, n)
	for k := range n {
		i, owner := q.block[k], q.owner[k]
		if owner != w.owner {
			w.endBlock()
			w.beginBlock(owner)
		}
		switch {
		case i == nowhere || i == owner || w.skip:
		case i == notStart:
			w.kind = q.kind[k]
			w.unclear(q.word[k], uint64(q.off[k]), owner, b)
		case w.noting:
			w.noteEdge(i)
		case w.seen.has(i):
		case owner == noBlock:
			if !w.inRecord(i, q.word[k], b, unsafe.Pointer(&b.data[q.off[k]])) {
				w.fromRoot(i, q.kind[k])
			}
		default:
			w.seen.add(i)
		}
	}
}

// findRefs finds what its region knows of each candidate's page.
func (w *worker) findRefs(q *batch, n int) {
	x := w.x
	for k := range n {
		addr := q.word[k] & addrMask
		t := x.top[(addr-x.base)>>regionShift]
		q.block[k] = uint32(t)
		if t&coverFlag != 0 {
			t = 0 // it has no pages
		}
		q.at[k] = uint64(t)*regionSize + regionRefs + addr>>pageShift%regionPages*pageRefSize
	}
	regions := unsafe.Pointer(unsafe.SliceData(x.regions))
	w.touched += q.touch(regions, n)
	for k := range n {
		q.ref[k] = *(*pageRef)(unsafe.Add(regions, q.at[k]))
		if t := entry(q.block[k]); t&coverFlag != 0 {
			q.ref[k].entry = t
		}
	}
}

// findStarts brings the bits of each candidate's page into the cache.
func (w *worker) findStarts(q *batch, n int) {
	for k := range n {
		e := q.ref[k].entry
		if e&coverFlag != 0 {
			e = 0 // no block starts in that page
		}
		q.at[k] = uint64(e)*uint64(unsafe.Sizeof(page{})) + q.word[k]>>9%8*8
	}
	w.touched += q.touch(unsafe.Pointer(unsafe.SliceData(w.x.pages)), n)
}

// findBlocks finds the block that starts at each candidate's address, and
// brings its mark into the cache.
func (w *worker) findBlocks(q *batch, n int) {
	pages := unsafe.Pointer(unsafe.SliceData(w.x.pages))
	for k := range n {
		ref, word := &q.ref[k], q.word[k]
		starts := *(*uint64)(unsafe.Add(pages, q.at[k]))
		i := uint32(notStart)
		switch {
		case ref.entry == 0:
			i = nowhere
		case starts>>(word>>3%64)&1 != 0 && word&7 == 0 && word>>addrBits == 0:
			i = ref.number(starts, word)
		}
		q.block[k], q.at[k] = i, 0
		if i < nowhere {
			q.at[k] = uint64(i) >> 6 * 8
		}
	}
	w.touched += q.touch(unsafe.Pointer(unsafe.SliceData(w.seen)), n)
}

// touch reads a word at each of n offsets. It returns a value that depends on
// all of them, so that they are read.
func (q *batch) touch(base unsafe.Pointer, n int) (sum uint64) {
	for _, at := range q.at[:n] {
		sum += *(*uint64)(unsafe.Add(base, at))
	}
	return sum
}

// unclear takes a candidate that is not one to a block's start as it stands.
func (w *worker) unclear(word, off uint64, owner uint32, b *buffer) {
	i, start, ok := w.x.find(word & addrMask)
	switch {
	case !ok || i == owner:
	case !w.noting:
		if !w.seen.has(i) {
			w.inside(i, start, word, owner, b, unsafe.Pointer(&b.data[off]))
		}
	case word-start < 8:
		w.noteEdge(i)
	default: // it matters only if the block is reachable
		w.rereadLater(owner)
	}
}
