package dwarf

import (
	std "debug/dwarf"
	"fmt"
)

// buildIndex finds which unit has which addresses, by what each unit's own
// entry says. Units that say nothing, as of some old compilers and
// assemblers, are looked up in .debug_aranges.
//
// .debug_aranges is not asked for the others: clang leaves it out, lld and
// dwz may leave it stale, and where it is there it saves nothing, since a
// unit's own entry stands right behind the header that is read anyway.
func (d *Data) buildIndex() error {
	units, err := parseUnits(d.s.Info, d.most.units, d.work)
	d.units = units
	silent := map[uint64]uint64{} // offset of unit -> index
	for i, u := range units {
		said, unitErr := d.indexUnit(i, u)
		if unitErr != nil && err == nil {
			err = unitErr
		}
		if unitErr == nil && !said {
			silent[u.off] = uint64(i)
		}
	}
	if len(silent) > 0 {
		d.indexAranges(silent)
	}
	d.index.sort()
	return err
}

// indexUnit adds the ranges of unit i. said is false for a unit of code that
// gives none.
func (d *Data) indexUnit(i int, u unit) (said bool, err error) {
	l, err := d.rootOf(u)
	if err != nil {
		return false, err
	}
	if l.root.tag == std.TagPartialUnit {
		return true, nil
	}
	if !l.root.placed() {
		return false, nil
	}
	full := false
	err = d.pcs(l, &l.root, func(lo, hi uint64) bool {
		full = !d.index.add(lo, hi, uint64(i), d.most.spans)
		return !full
	})
	if full {
		return true, fmt.Errorf("more than %d ranges", d.most.spans)
	}
	return true, err
}

// indexAranges adds what .debug_aranges has of the given units. A damaged
// section ends the reading, no more.
func (d *Data) indexAranges(units map[uint64]uint64) {
	for pos := uint64(0); pos < uint64(len(d.s.Aranges)) && d.work.spend(1); {
		c := at(d.s.Aranges, pos)
		start := pos
		n, dwarf64 := c.length()
		if c.bad || n > uint64(len(d.s.Aranges))-c.pos {
			return
		}
		pos = c.pos + n
		c.data = c.data[:pos]
		version := c.u16()
		unit, ok := units[c.offset(dwarf64)]
		addrSize, segmentSize := c.u8(), c.u8()
		if !ok || version != 2 || segmentSize != 0 || addrSize != 4 && addrSize != 8 {
			continue
		}
		// The pairs are aligned to their size, counted from the set's start.
		pair := 2 * uint64(addrSize)
		if used := (c.pos - start) % pair; used != 0 {
			c.skip(pair - used)
		}
		d.arangeSet(&c, addrSize, unit)
	}
}

func (d *Data) arangeSet(c *cursor, addrSize uint8, unit uint64) {
	for d.work.spend(1) {
		lo, n := c.uint(addrSize), c.uint(addrSize)
		if c.bad || lo == 0 && n == 0 {
			return
		}
		if lo >= 2 && lo+n > lo && !d.index.add(lo, lo+n, unit, d.most.spans) {
			return
		}
	}
}
