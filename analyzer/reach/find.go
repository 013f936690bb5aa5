//go:build linux && !viewer

package reach

import "math/bits"

// pageAt returns the page in which blocks start, or nil.
func (x *index) pageAt(addr uint64) *pageRef {
	if addr < x.base || addr >= x.hi {
		return nil
	}
	t := x.top[(addr-x.base)>>regionShift]
	if t == 0 || t&coverFlag != 0 {
		return nil
	}
	if r := &x.regions[t].pages[addr>>pageShift%regionPages]; !r.empty() {
		return r
	}
	return nil
}

// find returns the block that addr lies in, and its first address.
func (x *index) find(addr uint64) (i uint32, start uint64, ok bool) {
	if addr < x.base || addr >= x.hi {
		return 0, 0, false
	}
	e := x.top[(addr-x.base)>>regionShift]
	if e != 0 && e&coverFlag == 0 {
		r := &x.regions[e].pages[addr>>pageShift%regionPages]
		if !r.empty() {
			return x.findIn(r, addr)
		}
		e = r.entry
	}
	if e == 0 {
		return 0, 0, false
	}
	c := &x.covers[e&^coverFlag]
	return c.block, c.addr, addr < c.end && addr >= c.addr
}

// findIn is find for an address in a page in which blocks start.
func (x *index) findIn(r *pageRef, addr uint64) (i uint32, start uint64, ok bool) {
	p, w, bit := &x.pages[r.entry], addr>>9%8, addr>>3%64
	for below := p[w] & (2<<bit - 1); ; below = p[w] {
		if below != 0 {
			start = addr&^(pageBytes-1) | w<<9 | uint64(63-bits.LeadingZeros64(below))<<3
			i = r.number(p[w], start)
			return i, start, addr-start < x.extent(i)
		}
		if w == 0 {
			break
		}
		w--
	}
	if start = x.before[r.entry]; start == 0 {
		return 0, 0, false
	}
	i = r.first - 1
	return i, start, addr-start < x.extent(i)
}
