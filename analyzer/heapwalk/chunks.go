package heapwalk

import "fmt"

// A chunk is a header of two words and what follows:
//
//	size of the chunk before, if that is free (else part of its block)
//	size of this one | 4: not of the main arena | 2: a mapping | 1: the one before is in use
//	block
//
// Whether a chunk is in use is told by the one after it.
const (
	prevInUse  = 1
	isMapped   = 2
	sizeBits   = 7
	headBytes  = 16
	fencepost  = 16 // size of the markers at the end of a region that is over
	maxRereads = 4
)

// A chunk as it was found.
type chunk struct {
	addr, size uint64
	free       bool // or the top chunk
	head       head // the block's first words
}

// A head is a block's first words; those that are not part of it are zero.
type head [headWords]uint64

const headWords = 4

func (c chunk) block() uint64  { return c.addr + headBytes }
func (c chunk) usable() uint64 { return c.size - 8 }

// walker goes through a region chunk by chunk.
type walker struct {
	m       *memory
	a       *allocator
	r       region
	v       *view
	emit    func(c chunk) error
	skipped uint64 // bytes that could not be gone through
	posts   uint64 // fenceposts passed
}

// walk goes through the region, and on behind what cannot be gone through.
func (w *walker) walk() error {
	at := w.r.start
	if !w.r.certain {
		at = w.findStart(at)
		w.skipped += at - w.r.start
	}
	for at < w.r.end {
		stopped, err := w.from(at)
		if err != nil {
			return err
		}
		if stopped >= w.r.end {
			return nil
		}
		at = w.findStart(stopped + chunkAlign)
		w.skipped += at - stopped
	}
	return nil
}

// from goes from chunk to chunk, and returns where it went no further: the
// end, or what makes no sense. A chunk counts once the one after it is sound.
func (w *walker) from(at uint64) (uint64, error) {
	var last chunk
	furthest := at
	for rereads := 0; ; {
		c, next, err := w.chunk(at)
		if err != nil {
			return at, err
		}
		if next == 0 {
			if last.size != 0 {
				at = last.addr
			}
			if rereads++; rereads > maxRereads {
				return at, nil
			}
			last = chunk{} // it may have been split or joined between two reads
			w.v.refresh()
			continue
		}
		if last.size == fencepost {
			w.posts++
		} else if last.size != 0 {
			if err := w.emit(last); err != nil {
				return at, err
			}
		}
		if next == w.r.end {
			if c.size >= minChunk {
				err = w.emit(c)
			}
			return next, err
		}
		if at > furthest {
			furthest, rereads = at, 0
		}
		last, at = c, next
	}
}

// chunk reads the chunk at addr. next is the one after it, the region's end
// after the top chunk or a fencepost, or 0 where what is there is no chunk.
func (w *walker) chunk(addr uint64) (c chunk, next uint64, err error) {
	if w.atTop(addr) {
		if addr > w.r.arena.top { // it has come nearer meanwhile
			return c, w.r.end, nil
		}
		return chunk{addr: addr, size: w.r.end - addr, free: true}, w.r.end, nil
	}
	if addr+headBytes > w.r.end {
		return c, 0, nil
	}
	b, err := w.v.at(addr, min(headBytes+8*headWords, w.r.end-addr))
	if err != nil {
		return c, 0, fmt.Errorf("read a chunk's header: %w", err)
	}
	size := word(b, 1)
	c = chunk{addr: addr, size: size &^ sizeBits}
	for i := range min(c.usable()/8, uint64(len(b)/8-2), headWords) {
		c.head[i] = word(b, int(i)+2)
	}
	switch {
	case c.size == 0 && size == prevInUse && !w.r.hasTop: // the second marker
		return c, w.r.end, nil
	case c.size%chunkAlign != 0, c.size < fencepost, size&isMapped != 0, c.size > w.r.end-addr-headBytes:
		return c, 0, nil
	}
	after, err := w.v.at(addr+c.size, headBytes)
	if err != nil {
		return c, 0, fmt.Errorf("read a chunk's header: %w", err)
	}
	c.free = word(after, 1)&prevInUse == 0
	if c.free && word(after, 0) != c.size || c.size == fencepost && word(after, 1)&^sizeBits > fencepost {
		return c, 0, nil
	}
	return c, addr + c.size, nil
}

// atTop reports whether addr is the arena's top chunk, or behind it. The top
// moves as the process allocates, and may leave the region.
func (w *walker) atTop(addr uint64) bool {
	if !w.r.hasTop || addr < w.r.arena.top {
		return false
	}
	if top := w.m.word(w.r.arena.addr + w.a.top); top != 0 {
		w.r.arena.top = top
	}
	w.r.hasTop = w.r.has(w.r.arena.top)
	return w.r.hasTop && addr >= w.r.arena.top
}

// enough chunks in a row cannot be there by chance.
const enough = 256

// findStart returns the first place from addr on from which chunk follows on
// chunk; the region's end where there is none. It serves behind a stretch that
// another user of brk(2) has, or that was overwritten. The first chunk of
// the row, which may be none, is left out.
func (w *walker) findStart(addr uint64) uint64 {
	const maxSteps = 1 << 22
	most := min(w.m.search+maxSteps, maxSearch)
	bad := make(map[uint64]bool) // leads nowhere
	for ; addr+headBytes <= w.r.end && w.m.search < most; addr += chunkAlign {
		path, at := []uint64{}, addr
		for !bad[at] && w.m.search < most {
			w.m.search++
			c, next, err := w.chunk(at)
			if err != nil || next == 0 || c.size == fencepost {
				break
			}
			if len(path) > 0 && (next == w.r.end || len(path) >= enough) {
				return path[min(1, len(path)-1)]
			}
			path = append(path, at)
			at = next
		}
		for _, p := range path {
			bad[p] = true
		}
	}
	return w.r.end
}
