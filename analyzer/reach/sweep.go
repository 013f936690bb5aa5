//go:build linux && !viewer

package reach

import (
	"math/bits"
	"slices"
	"sync/atomic"
	"unsafe"
)

// The sweep reads all memory once, from the highest address down, however
// pointers lead about in it. A block that is known to be reachable when its
// turn comes has its pointers followed at once. Of one that is not, the blocks
// that it points to are noted in the log; should it turn out to be reachable
// later, they are found there, without reading the target again:
//
//	◀── address   A        B        C        D
//	              │        ▲ │               ▲
//	              └────────│─│───────────────┘   found as A is read
//	   root ───────────────│─┼──▶ C ─┐
//	                       └─│───────┘           C is read after B: B's
//	                         └─▶ … in the log    pointers come from the log
//
// Words are looked up in batches, one step for all of them after the other, so
// that the cache misses of many are under way at once.

// sweep follows all roots and all blocks that they lead to.
func (m *marker) sweep() {
	m.sweeping = true
	for _, heap := range []bool{false, true} {
		var next atomic.Int64
		m.each(func(w *worker) {
			for !m.mem.gone.Load() {
				// From above: large tables lie there, in mappings of their own,
				// and lead to much of what lies below, as what is new leads to
				// what is old where lists grow at their heads.
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
// What few words may be pointers are picked out first, of all pages as they
// come; only for those it matters what block they are in.
func (w *worker) sweepWindow(n uint32, heap bool) {
	win := &w.s.windows[n]
	want := win.roots
	if heap {
		want = win.present
	}
	in := w.inner(win)
	if in.at >= in.end && !in.crosses || want == 0 && !heap {
		return
	}
	w.buf.fill(w.mem, win, want)
	w.countRoots(win)
	for rest := w.buf.pages & want; rest != 0; {
		page := 63 - bits.LeadingZeros64(rest)
		rest &^= 1 << page
		off := uint64(page) << pageShift
		if found := w.pick(w.buf, off, pageBytes/8); len(found) > 0 {
			w.sort(win, off, found, &in)
		}
	}
	w.flush()
	w.endBlock()
	if in.crosses {
		w.sweepAcross(win, in.end, in.last)
	}
}

// inner is the part of a window that blocks which start and end there are in.
type inner struct {
	at, end uint64
	crosses bool   // a block, the last one, starts at end and reaches into the next window
	last    uint32 // its number
	// The block that the last word was in, if any.
	i     uint32
	start uint64
	limit uint64
}

func (w *worker) inner(win *window) inner {
	in := inner{at: win.addr, end: win.addr + winBytes}
	if i, start, ok := w.x.find(win.addr); ok && start < win.addr {
		in.at = start + w.x.extent(i)
	}
	if i, start, ok := w.x.find(in.end - 1); ok && start >= win.addr && start+w.x.size(i) > in.end {
		in.end, in.crosses, in.last = start, true, i
	}
	return in
}

// countRoots adds what of a window is outside of blocks.
func (w *worker) countRoots(win *window) {
	if win.roots == 0 {
		return
	}
	for at, end := range w.gaps(win) {
		own := w.own.bytes(at, end)
		w.rootBytes += end - at - own
		w.ownBytes += own
		w.unsureBytes += w.unsure.bytes(at, end)
	}
}

// gaps yields the parts of a window's root pages that are in no block.
func (w *worker) gaps(win *window) func(yield func(at, end uint64) bool) {
	return func(yield func(at, end uint64) bool) {
		at, more := win.addr, true
		if i, start, ok := w.x.find(at); ok && start < win.addr {
			at = start + w.x.extent(i)
		}
		for page := win.addr; more && page < win.addr+winBytes; page += pageBytes {
			p := w.x.pageAt(page)
			if p == nil {
				continue
			}
			w.x.allIn(p, page, func(addr uint64, i uint32) bool {
				more = win.rootRange(at, addr, yield)
				at = max(at, addr+w.x.extent(i))
				return more
			})
		}
		if more {
			win.rootRange(at, win.addr+winBytes, yield)
		}
	}
}

// rootRange yields what of the addresses from at to end is on root pages.
func (win *window) rootRange(at, end uint64, yield func(at, end uint64) bool) bool {
	for at < end {
		page := at &^ (pageBytes - 1)
		to := min(end, page+pageBytes)
		if win.roots>>((page-win.addr)>>pageShift)&1 != 0 && !yield(at, to) {
			return false
		}
		at = to
	}
	return true
}

// pick returns which of n words from an offset in b on may be addresses of the
// heap, by the third and fourth bytes of eight from the top alone. Most are
// not; there is no branch that would depend on it.
func (w *worker) pick(b *buffer, off, n uint64) []uint16 {
	near, found := &w.x.near, &w.batch.found
	count := uintptr(0) // never more than n, which a page's words are at most
	out, p := unsafe.Pointer(found), unsafe.Pointer(&b.data[off+nearByte])
	k := uint64(0)
	for ; k+4 <= n; k += 4 {
		*(*uint16)(unsafe.Add(out, count*2)) = uint16(k)
		count += uintptr(near[*(*uint16)(p)])
		*(*uint16)(unsafe.Add(out, count*2)) = uint16(k + 1)
		count += uintptr(near[*(*uint16)(unsafe.Add(p, 8))])
		*(*uint16)(unsafe.Add(out, count*2)) = uint16(k + 2)
		count += uintptr(near[*(*uint16)(unsafe.Add(p, 16))])
		*(*uint16)(unsafe.Add(out, count*2)) = uint16(k + 3)
		count += uintptr(near[*(*uint16)(unsafe.Add(p, 24))])
		p = unsafe.Add(p, 32)
	}
	for ; k < n; k++ {
		*(*uint16)(unsafe.Add(out, count*2)) = uint16(k)
		count += uintptr(near[*(*uint16)(p)])
		p = unsafe.Add(p, 8)
	}
	return found[:count]
}

// sort makes candidates of the words found in a page at off that are in a
// block, and of those that are roots: from the last to the first, as windows
// have their turns.
func (w *worker) sort(win *window, off uint64, found []uint16, in *inner) {
	page := win.addr + off
	root := win.roots>>(off>>pageShift)&1 != 0
	ref := w.x.pageAt(page)
	for _, k := range slices.Backward(found) {
		at := page + uint64(k)*8
		if at < in.at || at >= in.end {
			continue
		}
		if at < in.start || at >= in.limit || in.i == noBlock {
			in.i, in.limit = noBlock, 0
			if i, start, ok := w.findFrom(ref, at); ok {
				in.i, in.start, in.limit = i, start, start+w.x.extent(i)
			}
		}
		switch {
		case in.i != noBlock:
			if at+8 <= in.start+w.x.size(in.i) {
				w.candidate(w.buf, off+uint64(k)*8, in.i)
			}
		case root && w.isAlive(at):
			w.candidate(w.buf, off+uint64(k)*8, noBlock)
		}
	}
}

// findFrom is index.find for an address in a page.
func (w *worker) findFrom(ref *pageRef, addr uint64) (i uint32, start uint64, ok bool) {
	if ref != nil {
		return w.x.findIn(ref, addr)
	}
	return w.x.find(addr)
}

// sweepAcross follows the pointers of a block that reaches into the next
// window, or sees to it that it is read again.
func (w *worker) sweepAcross(win *window, addr uint64, i uint32) {
	if !w.seen.has(i) {
		w.edges.at[i] = reread
		w.edges.logged.add(i)
		return
	}
	end, limit := addr+w.x.size(i), win.addr+winBytes
	w.gather(w.buf, addr, limit, i)
	for at := limit; at < end; at += winBytes {
		if next := w.s.at(at); next != nil {
			to := min(end, at+winBytes)
			w.far.addr = 0 // it may have changed since
			w.far.fill(w.mem, next, pageMask(0, to-at))
			w.gather(w.far, at, to, i)
		}
	}
	w.endBlock()
}

// gather follows the pointers from at to end, which lie in b's window and in
// the block owner, as far as b has the pages.
func (w *worker) gather(b *buffer, at, end uint64, owner uint32) {
	at = (at + 7) &^ 7
	for at+8 <= end {
		off := at - b.addr
		to := min(end, at&^(pageBytes-1)+pageBytes)
		if b.pages>>(off>>pageShift)&1 != 0 {
			for _, k := range w.pick(b, off, (to-at)/8) {
				w.candidate(b, off+uint64(k)*8, owner)
			}
		}
		at = to
	}
	w.flushFrom(b)
}
