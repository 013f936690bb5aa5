//go:build linux && !viewer

package reach

import (
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// A marker follows pointers: first by a sweep over all memory (see sweep.go);
// then blocks that must be read again come from a work list with a bit a
// window, those that have such blocks (pending). Workers go through it in
// circles, so that a window gathers pending blocks until its turn comes, and
// is read once for all of them. The list cannot overflow.
type marker struct {
	x   *index
	s   *space
	mem *memory

	seen    bitmap // blocks found
	pending bitmap // blocks found that are to be read for their pointers
	edges   edges
	direct  direct
	queued  []uint64
	waiting atomic.Int64 // windows queued, and one if something is shared
	active  atomic.Int64
	idle    atomic.Int64
	sharing sync.Mutex
	shared  []uint32 // blocks whose edges any worker may follow
	workers []*worker
	dead    zones // what is in none of them is alive
	own     zones // those of dead that are the allocator's own
	unsure  zones // what may be

	// How pointers are taken; constant while workers run.
	mimalloc  bool  // its records are none of the program's
	scudo     bool  // the same
	base      zones // jemalloc's memory for its records
	startOnly bool  // pointers into a block are only noted
	quiet     bool  // what is found is not followed
	unaligned bool  // pointers at any byte
	slack     uint64
	empty     *emptyArrays // looked for; nil: none
	sweeping  bool         // what is found has its turn later
	stage     RootKind     // the kind of roots that is followed
}

// A worker is one goroutine's state.
type worker struct {
	*marker
	buf, far  *buffer
	current   uint32 // the window whose pending blocks are going to be looked for once more; noBlock: none
	again     bool   // something in it became pending
	cursor    int
	blocks    []claimed
	notes     []interior
	recent    [recentNotes]interior
	rootBytes uint64 // what of the roots was read
	ownBytes  uint64 // what would be a root if it were not the allocator's own
	// unsureBytes is what of rootBytes may be the allocator's own.
	unsureBytes uint64
	assumed     int // pointers into blocks taken for ones to their start, as too many were noted

	// Of the sweep:
	span    span     // the last root was in
	kind    RootKind // of the roots that the word looked at is in
	batch   *batch
	touched uint64   // of no meaning
	owner   uint32   // the block whose candidates are looked at
	noting  bool     // it is not known to be reachable
	skip    bool     // its pointers are of no interest any more
	noted   []uint32 // its edges
	logAt   uint32   // what is left of this worker's chunk of the log
	logLeft int
	stack   []uint32 // reachable blocks whose edges are to be followed
}

type claimed struct {
	addr uint64
	i    uint32
}

// noBlock is the owner of words that are in no block.
const noBlock = ^uint32(0)

func newMarker(x *index, s *space, mem *memory, workers int) (*marker, error) {
	m := &marker{x: x, s: s, mem: mem, queued: make([]uint64, len(s.windows)/64+1)}
	var err error
	if m.seen, err = newBitmap(&x.area, x.count); err != nil {
		return nil, err
	}
	if m.pending, err = newBitmap(&x.area, x.count); err != nil {
		return nil, err
	}
	if err = m.edges.make(&x.area, x.count); err != nil {
		return nil, err
	}
	if err = m.direct.make(&x.area, x.count); err != nil {
		return nil, err
	}
	for i := range workers {
		w := &worker{marker: m, cursor: i * len(s.windows) / workers, current: noBlock, owner: nowhere, batch: new(batch)}
		m.workers = append(m.workers, w)
		if w.buf, err = newBuffer(); err != nil {
			return m, err
		}
		if w.far, err = newBuffer(); err != nil {
			return m, err
		}
	}
	return m, nil
}

func (m *marker) close() {
	for _, w := range m.workers {
		for _, b := range []*buffer{w.buf, w.far} {
			if b != nil {
				b.close()
			}
		}
	}
}

// each runs fn on all workers.
func (m *marker) each(fn func(w *worker)) {
	var wg sync.WaitGroup
	for _, w := range m.workers {
		wg.Go(func() { fn(w) })
	}
	wg.Wait()
}

// roots reads all roots and, on the way, the blocks that they lead to nearby:
// memory without blocks first, so that much is pending when the heap is read.
func (m *marker) roots() {
	for _, heap := range []bool{false, true} {
		var next atomic.Int64
		m.each(func(w *worker) {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(m.s.windows) || m.mem.gone.Load() {
					return
				}
				if win := &m.s.windows[i]; win.roots != 0 && m.x.mayStart(win.addr) == heap {
					w.rootsIn(uint32(i))
				}
			}
		})
	}
	m.drain()
}

// mayStart reports whether blocks may start in the window at addr.
func (x *index) mayStart(addr uint64) bool {
	if addr < x.base || addr >= x.hi {
		return false
	}
	t := x.top[(addr-x.base)>>regionShift]
	return t != 0 && t&coverFlag == 0
}

// rootsIn follows what the window holds outside of blocks, and its pending blocks.
func (w *worker) rootsIn(n uint32) {
	win := &w.s.windows[n]
	w.current = n
	w.buf.fill(w.mem, win, win.roots)
	for at, end := range w.gaps(win) {
		w.alive(at, end)
	}
	w.pendingIn(n)
}

// alive follows the words from at to end that are in no dead zone.
func (w *worker) alive(at, end uint64) {
	for _, z := range w.dead.from(at) {
		if z.start >= end {
			break
		}
		if z.start > at {
			w.words(w.buf, at, z.start, noBlock)
		}
		at = z.end
	}
	w.words(w.buf, at, end, noBlock)
}

// isAlive reports whether no dead zone has a part of the word at an address.
func (w *worker) isAlive(at uint64) bool {
	dead := w.dead.from(at)
	return len(dead) == 0 || dead[0].start >= at+8
}

// live takes a zone out of the dead ones.
func (m *marker) live(z zone) { m.dead = m.dead.without(zones{z}) }

// drain follows pointers until no block is pending.
func (m *marker) drain() { m.drainAfter(func(*worker) {}) }

// drainAfter has each worker do something first.
func (m *marker) drainAfter(first func(w *worker)) {
	m.active.Store(int64(len(m.workers)))
	m.idle.Store(0)
	m.each(func(w *worker) {
		first(w)
		w.emptyStack()
		for !m.mem.gone.Load() {
			if w.takeShared() {
				w.emptyStack()
				continue
			}
			if n, ok := w.claim(); ok {
				w.pendingIn(n)
				w.emptyStack()
				continue
			}
			m.active.Add(-1)
			m.idle.Add(1)
			for m.waiting.Load() == 0 {
				if m.active.Load() == 0 || m.mem.gone.Load() {
					return
				}
				time.Sleep(idleWait)
			}
			m.idle.Add(-1)
			m.active.Add(1)
		}
	})
}

// idleWait is how long a worker that finds nothing to do rests: long enough to
// leave the core to others, short beside the reading of a window.
const idleWait = 20 * time.Microsecond

// claim takes a window off the work list: the next after the last.
func (w *worker) claim() (uint32, bool) {
	if w.waiting.Load() == 0 {
		return 0, false
	}
	words := len(w.queued)
	at := w.cursor / 64 % words
	for k := range words + 1 {
		v := atomic.LoadUint64(&w.queued[at])
		if k == 0 {
			v &= ^uint64(0) << (w.cursor % 64)
		}
		for ; v != 0; v &= v - 1 {
			bit := v & -v
			if atomic.AndUint64(&w.queued[at], ^bit)&bit != 0 {
				w.waiting.Add(-1)
				n := at*64 + bits.TrailingZeros64(bit)
				w.cursor = n + 1
				return uint32(n), true
			}
		}
		if at++; at == words {
			at = 0
		}
	}
	return 0, false
}

// pendingIn follows the pointers in the window's pending blocks, and in those
// of its blocks that this leads to.
func (w *worker) pendingIn(n uint32) {
	win := &w.s.windows[n]
	w.current = n
	defer func() { w.current = noBlock }()
	for {
		w.again = false
		need := w.claimBlocks(win)
		if len(w.blocks) == 0 {
			return
		}
		w.buf.fill(w.mem, win, need)
		for _, b := range w.blocks {
			w.block(win, b)
		}
		if !w.again {
			return
		}
	}
}

// claimBlocks takes the pending blocks that start in the window into w.blocks,
// and returns the pages that they span there.
func (w *worker) claimBlocks(win *window) (need uint64) {
	w.blocks = w.blocks[:0]
	for at := win.addr; at < win.addr+winBytes; at += pageBytes {
		p := w.x.pageAt(at)
		if p == nil || !w.anyPending(p) {
			continue
		}
		w.x.allIn(p, at, func(addr uint64, i uint32) bool {
			if w.pending.has(i) && w.pending.drop(i) {
				w.blocks = append(w.blocks, claimed{addr, i})
				need |= pageMask(addr-win.addr, min(addr-win.addr+w.x.size(i), winBytes))
			}
			return true
		})
	}
	return need
}

// anyPending reports whether a block that starts in p is pending.
func (w *worker) anyPending(p *pageRef) bool {
	n := w.x.countIn(p)
	for i := uint32(0); i < n; i += 64 {
		if w.pending.word(p.first+i, min(64, n-i)) != 0 {
			return true
		}
	}
	return false
}

// block follows the pointers in one block, the rest of which may lie in later
// windows.
func (w *worker) block(win *window, b claimed) {
	end := b.addr + w.x.size(b.i)
	w.words(w.buf, b.addr, min(end, win.addr+winBytes), b.i)
	for at := win.addr + winBytes; at < end; at += winBytes {
		next := w.s.at(at)
		if next == nil {
			continue
		}
		to := min(end, at+winBytes)
		w.far.addr = 0 // it may have changed since
		w.far.fill(w.mem, next, pageMask(0, to-at))
		w.words(w.far, at, to, b.i)
	}
}

// found notes that something points to block i, which starts at addr.
func (w *worker) found(i uint32, addr uint64) {
	switch {
	case !w.seen.add(i), w.quiet:
	case w.sweeping: // its turn comes, or followLogged finds it
	case w.edges.open:
		w.followEdges(i)
	default:
		w.follow(i, addr)
	}
}

// follow makes a block pending: its memory is read for its pointers.
func (w *worker) follow(i uint32, addr uint64) {
	w.pending.add(i)
	n := w.x.regions[w.x.top[(addr-w.x.base)>>regionShift]].wins[addr>>winShift%regionWins] - 1
	if n == w.current {
		w.again = true
		return
	}
	w.enqueue(n)
}

// enqueue puts a window on the work list.
func (m *marker) enqueue(n uint32) {
	bit := uint64(1) << (n % 64)
	if atomic.OrUint64(&m.queued[n/64], bit)&bit == 0 {
		m.waiting.Add(1)
	}
}

// workersFor is one a core.
func workersFor(asked int) int {
	if asked > 0 {
		return asked
	}
	return runtime.GOMAXPROCS(0)
}
