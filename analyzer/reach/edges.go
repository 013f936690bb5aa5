//go:build linux && !viewer

package reach

import (
	"math/bits"
	"sync/atomic"
)

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
