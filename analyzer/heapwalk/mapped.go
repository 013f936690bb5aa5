package heapwalk

import (
	"cmp"
	"slices"
)

// Blocks of 128 KiB and more have a mapping of their own, without an arena.
// The chunk's first word is then its distance from the mapping's start: 0, or
// what aligns the block, in which case the header for 0 has stayed behind.
// Mappings that touch are one to the kernel.
//
// Up to 2.42 distance and size add up to the mapping's size; from 2.43 on
// they are 16 less, and the lowest bit of the distance tells huge pages.

// A mappedChunk is a block with a mapping of its own.
type mappedChunk struct {
	chunk
	mapping span
	tail    uint64 // bytes at its end that are no part of the block
}

// mappedChunks finds those blocks. They are believed only if their number and
// sum are what glibc itself counts: known is false otherwise, and there are
// then as many as params says, somewhere.
func (m *memory) mappedChunks(a *allocator, regions []region) (found []mappedChunk, known bool, err error) {
	if a.params == nil {
		return nil, false, nil
	}
	for range 3 {
		a.params.reread(m)
		if a.params.mmaps == 0 {
			return nil, true, nil
		}
		if found, err = m.findMapped(a, regions); err != nil {
			return nil, false, err
		}
		var sum uint64
		for _, c := range found {
			sum += c.mapping.end - c.mapping.start
		}
		if uint64(len(found)) == a.params.mmaps && sum == a.params.mapped {
			return found, true, nil
		}
	}
	return nil, false, nil
}

// findMapped searches all anonymous memory that no arena has. It may touch an
// arena's, and is then one mapping with it.
func (m *memory) findMapped(a *allocator, regions []region) (found []mappedChunk, err error) {
	for i := range m.maps {
		mp := &m.maps[i]
		if !mp.anonymous() {
			continue
		}
		for _, part := range outside(mp.span, regions) {
			if found, err = m.mappedIn(part, found); err != nil {
				return nil, err
			}
			if len(found) > maxMapped {
				return nil, nil
			}
		}
	}
	return found, nil
}

// outside returns what of s the regions, which ascend, leave of whole pages.
func outside(s span, regions []region) (parts []span) {
	at := s.start
	i, _ := slices.BinarySearchFunc(regions, s.start, func(r region, start uint64) int { return cmp.Compare(r.end, start+1) })
	for ; i < len(regions) && regions[i].start < s.end; i++ {
		if end := regions[i].start &^ (pageBytes - 1); at < end {
			parts = append(parts, span{at, end})
		}
		at = max(at, (regions[i].end+pageBytes-1)&^(pageBytes-1))
	}
	if at < s.end {
		parts = append(parts, span{at, s.end})
	}
	return parts
}

const maxMapped = 1 << 24

// mappedIn searches one mapping, page by page; pages that are not there hold
// no chunk.
func (m *memory) mappedIn(s span, found []mappedChunk) ([]mappedChunk, error) {
	v, err := m.view(s)
	if err != nil {
		return found, err
	}
	for page := s.start; page < s.end; {
		if gap := v.gap(page); gap > page {
			page = (gap + pageBytes - 1) &^ (pageBytes - 1)
			continue
		}
		b, err := v.at(page, pageBytes)
		if err != nil {
			page += pageBytes // it went away meanwhile
			continue
		}
		c, ok := mappedAt(word(b, 0), word(b, 1), page, span{page, s.end})
		if !ok {
			page += pageBytes
			continue
		}
		found = append(found, m.alignedIn(c))
		page = c.mapping.end
	}
	return found, nil
}

// mappedAt takes a chunk's header at addr whose mapping begins where s does.
func mappedAt(distance, size, addr uint64, s span) (c mappedChunk, ok bool) {
	if size&sizeBits != isMapped || distance&^1 != addr-s.start {
		return c, false
	}
	size &^= sizeBits
	for _, head := range []uint64{0, headBytes} {
		end := addr + size + head
		if size >= minChunk && size < 1<<46 && end%pageBytes == 0 && end <= s.end {
			return mappedChunk{
				chunk: chunk{addr: addr, size: size}, mapping: span{s.start, end},
				tail: head / 2, // the size of the next chunk, had it one
			}, true
		}
	}
	return c, false
}

// alignedIn returns the chunk of a mapping whose block was aligned, which has a
// header of its own, behind that of c.
func (m *memory) alignedIn(c mappedChunk) mappedChunk {
	s := c.mapping
	for shift := 5; 1<<shift < s.end-s.start; shift++ {
		step := uint64(1) << shift
		block := (s.start + headBytes + step - 1) &^ (step - 1)
		for ; block < min(s.start+2*step+headBytes, s.end); block += step {
			var w [2]uint64
			if block < s.start+headBytes+minChunk || m.words(block-headBytes, w[:]) != nil {
				continue
			}
			if a, ok := mappedAt(w[0], w[1], block-headBytes, s); ok && a.mapping == s {
				return a
			}
		}
	}
	return c
}

// usable is the size of the block.
func (c mappedChunk) usable() uint64 {
	return c.mapping.end - c.tail - c.block()
}
