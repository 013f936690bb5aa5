package analyzer

import "errors"

// errDirectoryFull means that more blocks than a segment holds share all
// directory bits, which chance does not bring about.
var errDirectoryFull = errors.New("live heap: too many blocks with one hash prefix")

// start makes the first segment.
func (h *liveHeap) start() error {
	i, err := h.pool.grow()
	if err != nil {
		return err
	}
	h.dir, h.depth, h.shift = []uint32{i}, 0, 32
	return nil
}

// split moves the blocks of s whose next bit of position is 1 to a new segment.
func (h *liveHeap) split(s *segment) error {
	if s.depth == maxDepth {
		return errDirectoryFull
	}
	added, err := h.pool.grow()
	if err != nil {
		return err
	}
	if s.depth == h.depth {
		h.double()
	}
	old := *s
	upper := h.pool.at(added)
	s.reset(old.prefix<<1, old.depth+1)
	upper.reset(s.prefix|1, s.depth)
	bit := 32 - s.depth
	old.all(func(v *slot) bool {
		hash := h.hash(v.addr)
		if position(hash)>>bit&1 == 0 {
			s.insert(*v, hash)
		} else {
			upper.insert(*v, hash)
		}
		return true
	})
	h.point(upper, added)
	return nil
}

// double doubles the directory.
func (h *liveHeap) double() {
	dir := make([]uint32, 2*len(h.dir))
	for i, s := range h.dir {
		dir[2*i], dir[2*i+1] = s, s
	}
	h.dir = dir
	h.depth++
	h.shift--
}

// span returns the part of the directory that belongs to a segment's prefix.
func (h *liveHeap) span(s *segment) []uint32 {
	width := h.depth - s.depth
	first := uint64(s.prefix) << width
	return h.dir[first : first+1<<width]
}

// point makes the directory's entries for s name it as segment number i.
func (h *liveHeap) point(s *segment, i uint32) {
	span := h.span(s)
	for k := range span {
		span[k] = i
	}
}

// merge joins s with its buddy, the segment it was split from, where both
// have the same depth and few enough blocks.
func (h *liveHeap) merge(s *segment) {
	if s.depth == 0 {
		return
	}
	bit := 32 - s.depth
	keep := h.dir[s.prefix&^1<<bit>>h.shift]
	gone := h.dir[(s.prefix|1)<<bit>>h.shift]
	lower, upper := h.pool.at(keep), h.pool.at(gone)
	if lower.depth != upper.depth || lower.count+upper.count > mergeAt {
		return
	}
	upper.all(func(v *slot) bool {
		lower.insert(*v, h.hash(v.addr))
		return true
	})
	lower.prefix >>= 1
	lower.depth--
	h.point(lower, keep)
	h.discard(gone)
	h.halve()
}

// discard frees segment i: the last segment takes its place.
func (h *liveHeap) discard(i uint32) {
	if last := h.pool.used - 1; i != last {
		s := h.pool.at(i)
		*s = *h.pool.at(last)
		h.point(s, i)
	}
	h.pool.shrink()
}

// halve makes the directory smaller once it is much larger than the number of
// segments calls for. The first halving at which a segment is deeper fails.
func (h *liveHeap) halve() {
	if h.depth == 0 || len(h.dir) < 16*int(h.pool.used) {
		return
	}
	half := make([]uint32, len(h.dir)/2)
	for i := range half {
		if h.dir[2*i] != h.dir[2*i+1] {
			return
		}
		half[i] = h.dir[2*i]
	}
	h.dir = half
	h.depth--
	h.shift++
}

// clone copies the heap.
func (h *liveHeap) clone() (*liveHeap, error) {
	c := &liveHeap{depth: h.depth, shift: h.shift, count: h.count, key: h.key}
	c.dir = append(c.dir, h.dir...)
	for i := range h.pool.used {
		k, err := c.pool.grow()
		if err != nil {
			c.close()
			return nil, err
		}
		*c.pool.at(k) = *h.pool.at(i)
	}
	return c, nil
}
