package dwarf

import (
	"errors"
	"math"
)

// Entries of a range list (DWARF 5, section 7.25).
const (
	rleEndOfList    = 0
	rleBaseAddressx = 1
	rleStartxEndx   = 2
	rleStartxLength = 3
	rleOffsetPair   = 4
	rleBaseAddress  = 5
	rleStartEnd     = 6
	rleStartLength  = 7
)

var (
	errRanges = errors.New("bad range list")
	errBudget = errors.New("too much to read for one address")
	errHeld   = errors.New("too much to hold for one address")
)

// pcs calls visit with each range of code that the entry stands for, until it
// returns false. Ranges that a linker cleared (at or near 0, or at the top)
// are left out.
func (d *Data) pcs(l *loaded, e *die, visit func(lo, hi uint64) bool) error {
	live := func(lo, hi uint64) bool {
		// GNU ld and gold put removed functions at 0 or 1, lld at -1 or -2.
		if lo < 2 || lo >= math.MaxUint64-1 || lo >= hi {
			return true
		}
		return visit(lo, hi)
	}
	if e.ranges.present() {
		if l.version >= 5 {
			return d.rnglist(l, e.ranges, live)
		}
		return d.oldRanges(l, e.ranges, live)
	}
	lo, ok := d.address(l, e.low)
	if !ok {
		return nil
	}
	if hi, ok := d.address(l, e.high); ok {
		live(lo, hi)
	} else if size, ok := constant(e.high); ok {
		live(lo, lo+size)
	}
	return nil
}

// contains tells whether the entry stands for addr.
func (d *Data) contains(l *loaded, e *die, addr uint64) (found bool, err error) {
	err = d.pcs(l, e, func(lo, hi uint64) bool {
		found = lo <= addr && addr < hi
		return !found
	})
	return found, err
}

// base is the address that range lists of a unit are relative to.
func (d *Data) base(l *loaded) uint64 {
	lo, _ := d.address(l, l.root.low)
	return lo
}

// oldRanges reads a list of .debug_ranges (DWARF 3 and 4).
func (d *Data) oldRanges(l *loaded, v value, visit func(lo, hi uint64) bool) error {
	c := at(d.s.Ranges, v.u+l.rangesBase)
	base := d.base(l)
	top := uint64(math.MaxUint64)
	if l.addrSize == 4 {
		top = math.MaxUint32
	}
	for d.work.spend(1) {
		lo, hi := c.uint(l.addrSize), c.uint(l.addrSize)
		switch {
		case c.bad:
			return errRanges
		case lo == 0 && hi == 0:
			return nil
		case lo == top:
			base = hi
		case !visit(base+lo, base+hi):
			return nil
		}
	}
	return errBudget
}

// rnglist reads a list of .debug_rnglists (DWARF 5).
func (d *Data) rnglist(l *loaded, v value, visit func(lo, hi uint64) bool) error {
	off := v.u
	if v.form == formRnglistx {
		base := l.root.rnglistsBase.u
		rel, ok := tableEntry(d.s.RngLists, base, v.u, l.offsetSize())
		if !ok {
			return errRanges
		}
		off = base + rel
	}
	c := at(d.s.RngLists, off)
	r := rangeReader{d: d, l: l, c: &c, base: d.base(l)}
	for d.work.spend(1) {
		lo, hi, kind := r.next()
		if c.bad || r.bad {
			return errRanges
		}
		switch kind {
		case rleEndOfList:
			return nil
		case rleBaseAddress:
		default:
			if !visit(lo, hi) {
				return nil
			}
		}
	}
	return errBudget
}

// rangeReader reads the entries of a DWARF 5 range list.
type rangeReader struct {
	d    *Data
	l    *loaded
	c    *cursor
	base uint64
	bad  bool
}

// next reads one entry. kind is rleEndOfList, rleBaseAddress where it only set
// the base, else any other.
func (r *rangeReader) next() (lo, hi uint64, kind uint8) {
	c, size := r.c, r.l.addrSize
	kind = c.u8()
	switch kind {
	case rleEndOfList:
	case rleBaseAddressx:
		r.base = r.indexed()
		kind = rleBaseAddress
	case rleBaseAddress:
		r.base = c.uint(size)
	case rleStartxEndx:
		lo = r.indexed()
		hi = r.indexed()
	case rleStartxLength:
		lo = r.indexed()
		hi = lo + c.uleb()
	case rleOffsetPair:
		lo = r.base + c.uleb()
		hi = r.base + c.uleb()
	case rleStartEnd:
		lo = c.uint(size)
		hi = c.uint(size)
	case rleStartLength:
		lo = c.uint(size)
		hi = lo + c.uleb()
	default:
		r.bad = true
	}
	return lo, hi, kind
}

// indexed reads an address given by its index.
func (r *rangeReader) indexed() uint64 {
	v, ok := r.d.indexedAddress(r.l, r.c.uleb())
	if !ok {
		r.bad = true
	}
	return v
}
