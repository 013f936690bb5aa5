package analyzer

import (
	"slices"
	"sort"
)

// A region is a mapping that a process made outside of its allocator, or what
// is left of one.
type region struct {
	start, end uint64 // end is the first address after it
	time       uint64 // ns since Config.Start: when it was made
	site       regionSiteID
	flags      regionFlags
}

type regionFlags uint8

const (
	regionSysV      regionFlags = 1 << iota // a System V segment: ends as a whole
	regionUnsized                           // the kernel has not been asked yet how large the segment is
	regionMissing                           // some of it was not mapped at the last reading
	regionHeld                              // blocks of an allocator lie in it
	regionInherited                         // it was mapped by the parent, before the fork
)

// bytes is the size of a region, 0 where that is not known yet.
func (r region) bytes() uint64 {
	if r.flags&regionUnsized != 0 {
		return 0
	}
	return r.end - r.start
}

// A regionMap holds regions that don't overlap by address: a list, in order,
// of chunks of regions, in order. An operation moves one chunk's regions and
// looks at two logarithms of their number; what it removes it pays for when it
// was put in. No two neighbouring chunks are both nearly empty, so the memory
// stays in proportion to the regions, whatever a hostile process unmaps.
type regionMap struct {
	chunks [][]region
	room   *int // how many more regions there may be, of all processes
	gone   []cutRegion
}

// A cutRegion is what was removed of a region, and how many pieces are left of it.
type cutRegion struct {
	region
	left int
}

const (
	regionChunk = 256             // most regions of a chunk
	regionMerge = regionChunk / 2 // two neighbours with fewer are made one
)

// seek returns the place of the first region that ends above addr.
func (m *regionMap) seek(addr uint64) (chunk, i int) {
	chunk = sort.Search(len(m.chunks), func(c int) bool { return m.chunks[c][len(m.chunks[c])-1].end > addr })
	if chunk < len(m.chunks) {
		rs := m.chunks[chunk]
		i = sort.Search(len(rs), func(i int) bool { return rs[i].end > addr })
	}
	return chunk, i
}

// at returns the region that addr lies in, nil where there is none. It is
// valid until the map changes.
func (m *regionMap) at(addr uint64) *region {
	c, i := m.seek(addr)
	if c == len(m.chunks) || m.chunks[c][i].start > addr {
		return nil
	}
	return &m.chunks[c][i]
}

// all yields the regions in order. yield may change all but the addresses.
func (m *regionMap) all(yield func(*region) bool) {
	for _, rs := range m.chunks {
		for i := range rs {
			if !yield(&rs[i]) {
				return
			}
		}
	}
}

// add puts a region where there is none. It returns false where there are too
// many regions already.
func (m *regionMap) add(r region) bool {
	c, i := m.seek(r.start)
	if c == len(m.chunks) {
		if c == 0 {
			m.chunks = append(m.chunks, nil)
			c++
		}
		c--
		i = len(m.chunks[c])
	}
	return m.insert(c, i, r)
}

func (m *regionMap) insert(c, i int, r region) bool {
	if *m.room <= 0 {
		if len(m.chunks[c]) == 0 {
			m.chunks = slices.Delete(m.chunks, c, c+1)
		}
		return false
	}
	*m.room--
	rs := slices.Insert(m.chunks[c], i, r)
	m.chunks[c] = rs
	if len(rs) > regionChunk {
		half := len(rs) / 2
		m.chunks = slices.Insert(m.chunks, c+1, slices.Clone(rs[half:]))
		m.chunks[c] = rs[:half]
	}
	return true
}

// remove takes away what lies between lo and hi of the regions that were made
// up to a time. It returns what that was, valid until the next call. Where a
// region would fall in two and there are too many, its upper part goes, too:
// dropped is that.
func (m *regionMap) remove(lo, hi, until uint64) (gone []cutRegion, dropped bool) {
	m.gone = m.gone[:0]
	c, i := m.seek(lo)
	for lo < hi && c < len(m.chunks) {
		if i == len(m.chunks[c]) {
			c, i = c+1, 0
			continue
		}
		r := &m.chunks[c][i]
		if r.start >= hi {
			break
		}
		if r.time > until {
			i++
			continue
		}
		part := cutRegion{*r, 1}
		part.start, part.end = max(lo, r.start), min(hi, r.end)
		switch {
		case lo <= r.start && r.end <= hi:
			part.left = 0
			m.gone = append(m.gone, part)
			c, i = m.take(c, i)
			continue
		case r.start < lo && hi < r.end:
			return m.split(c, i, part)
		case r.start < lo:
			r.end = lo
		default:
			r.start = hi
		}
		m.gone = append(m.gone, part)
		i++
	}
	m.tidy(c)
	m.tidy(c - 1)
	return m.gone, false
}

// split takes a part out of the middle of a region.
func (m *regionMap) split(c, i int, part cutRegion) (gone []cutRegion, dropped bool) {
	r := &m.chunks[c][i]
	upper := *r
	upper.start, r.end = part.end, part.start
	if dropped = !m.insert(c, i+1, upper); dropped {
		part.end = upper.end
	} else {
		part.left = 2
	}
	m.gone = append(m.gone, part)
	return m.gone, dropped
}

// take removes a whole region and returns the place of the next one.
func (m *regionMap) take(c, i int) (int, int) {
	*m.room++
	m.chunks[c] = slices.Delete(m.chunks[c], i, i+1)
	if len(m.chunks[c]) == 0 {
		m.chunks = slices.Delete(m.chunks, c, c+1)
		return c, 0
	}
	return c, i
}

// tidy makes one of a chunk and the next, where they are nearly empty.
func (m *regionMap) tidy(c int) {
	if c < 0 || c+1 >= len(m.chunks) || len(m.chunks[c])+len(m.chunks[c+1]) > regionMerge {
		return
	}
	m.chunks[c] = append(m.chunks[c], m.chunks[c+1]...)
	m.chunks = slices.Delete(m.chunks, c+1, c+2)
}

// clear removes all regions.
func (m *regionMap) clear() {
	for _, rs := range m.chunks {
		*m.room += len(rs)
	}
	m.chunks, m.gone = nil, nil
}

// A regionCursor goes through the regions by ascending address.
type regionCursor struct {
	m    *regionMap
	c, i int
}

// piece returns the region that start lies in, nil where there is none, and
// up to where, at most end, that is so. start must not go back.
func (k *regionCursor) piece(start, end uint64) (*region, uint64) {
	for k.m != nil && k.c < len(k.m.chunks) {
		rs := k.m.chunks[k.c]
		if k.i == len(rs) {
			k.c, k.i = k.c+1, 0
			continue
		}
		r := &rs[k.i]
		switch {
		case r.end <= start:
			k.i++
		case r.start >= end:
			return nil, end
		case r.start > start:
			return nil, r.start
		default:
			return r, min(end, r.end)
		}
	}
	return nil, end
}

// addrRange is the addresses from start up to, not including, end.
type addrRange struct{ start, end uint64 }
