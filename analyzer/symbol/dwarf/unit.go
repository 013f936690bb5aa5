package dwarf

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sort"
)

const (
	// Unit types (DWARF 5, section 7.5.1).
	unitCompile      = 1
	unitPartial      = 3
	unitSkeleton     = 4
	unitSplitCompile = 5
)

// unit is the header of a unit in .debug_info.
type unit struct {
	off    uint64 // of the header
	first  uint64 // of the unit's own entry
	end    uint64
	abbrev uint64 // offset in .debug_abbrev
	kind   uint8
	id     uint64 // of the other part, where split (DWARF 5)
	encoding
}

// parseUnits hops from header to header. What precedes a damaged header is
// returned with the error.
func parseUnits(info []byte, most int, work *budget) ([]unit, error) {
	var units []unit
	for pos := uint64(0); pos < uint64(len(info)); {
		if len(units) >= most {
			return units, fmt.Errorf("more than %d units", most)
		}
		if !work.spend(1) {
			return units, errBudget
		}
		u, err := parseUnit(info, pos)
		if err != nil {
			return units, fmt.Errorf("unit at %#x: %w", pos, err)
		}
		pos = u.end
		if u.first != 0 {
			units = append(units, u)
		}
	}
	return units, nil
}

// parseUnit reads the header at pos. A unit of an unknown version or kind has
// no first entry: it is hopped over.
func parseUnit(info []byte, pos uint64) (unit, error) {
	c := at(info, pos)
	u := unit{off: pos}
	n, dwarf64 := c.length()
	if c.bad || n > uint64(len(info))-c.pos {
		return u, errors.New("its length reaches beyond the section")
	}
	u.end = c.pos + n
	u.dwarf64 = dwarf64
	version := c.u16()
	if version < 2 || version > 5 {
		return u, nil
	}
	u.version, u.kind = uint8(version), unitCompile
	if version == 5 {
		u.kind = c.u8()
		u.addrSize = c.u8()
		u.abbrev = c.offset(dwarf64)
	} else {
		u.abbrev = c.offset(dwarf64)
		u.addrSize = c.u8()
	}
	switch u.kind {
	case unitCompile, unitPartial:
	case unitSkeleton, unitSplitCompile:
		u.id = c.u64()
	default:
		return u, nil
	}
	if c.bad || c.pos > u.end {
		return u, errors.New("its header is cut off")
	}
	if u.addrSize == 4 || u.addrSize == 8 {
		u.first = c.pos
	}
	return u, nil
}

// unitAt returns the index of the unit that holds the entry at off.
func (d *Data) unitAt(off uint64) (int, bool) {
	i := sort.Search(len(d.units), func(i int) bool { return d.units[i].end > off })
	return i, i < len(d.units) && d.units[i].first <= off
}

// loaded is a unit with what was read of it.
type loaded struct {
	unit
	abbrevs *abbrevTable
	root    die
	used    uint64 // the lookup that used it last
	charged int    // what of Data.held is its

	functions  functionTable
	lines      *lineTable
	split      splitPart
	rangesBase uint64 // what offsets in .debug_ranges are relative to
}

// rootOf reads a unit's own entry with no more of its abbreviations than that
// needs.
func (d *Data) rootOf(u unit) (*loaded, error) {
	c := d.entries(&u, u.first)
	code := c.uleb()
	if code == 0 {
		return nil, errAbbrev
	}
	table, err := parseAbbrevs(d.s.Abbrev, u.abbrev, code, d.work)
	if err != nil {
		return nil, fmt.Errorf("unit at %#x: %w", u.off, err)
	}
	l := &loaded{unit: u, abbrevs: table}
	c = d.entries(&u, u.first)
	if !l.root.read(&c, u.encoding, table) {
		return nil, fmt.Errorf("unit at %#x: its entry can't be read", u.off)
	}
	return l, nil
}

// load returns unit i with all its abbreviations, from the cache if it can.
func (d *Data) load(i int) (*loaded, error) {
	if l := d.cache[i]; l != nil {
		l.used = d.lookups
		return l, nil
	}
	// What one address needs is held until it has its answer.
	if d.held > d.limit+d.limit/2 {
		return nil, errHeld
	}
	l, err := d.rootOf(d.units[i])
	if err != nil {
		return nil, err
	}
	if l.abbrevs, err = parseAbbrevs(d.s.Abbrev, l.abbrev, 0, d.work); err != nil {
		return nil, fmt.Errorf("unit at %#x: %w", l.off, err)
	}
	l.used = d.lookups
	d.cache[i] = l
	d.charge(l)
	return l, nil
}

// cost estimates the memory that a loaded unit holds, in bytes.
func (l *loaded) cost() int {
	n := 1024 + 16*len(l.abbrevs.dense) + 16*len(l.abbrevs.attrs) + 24*len(l.functions.spans)
	if p := l.split.loaded; p != nil {
		n += p.cost() + 64*len(l.split.data.units)
	}
	if l.lines != nil {
		n += 16*cap(l.lines.rows) + 32*len(l.lines.sequences) + 40*len(l.lines.files) + 24*len(l.lines.dirs) + l.lines.pathBytes
	}
	return n
}

// charge brings the memory that counts for l up to date.
func (d *Data) charge(l *loaded) {
	cost := l.cost()
	d.held += cost - l.charged
	l.charged = cost
}

// shrink drops the units unused for longest until the rest fits. What the
// current lookup used stays.
func (d *Data) shrink() {
	if d.held <= d.limit {
		return
	}
	order := make([]int, 0, len(d.cache))
	for i := range d.cache {
		order = append(order, i)
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(d.cache[a].used, d.cache[b].used) })
	for _, i := range order {
		// Down to half, so that this is not done at every lookup.
		if d.held <= d.limit/2 || d.cache[i].used == d.lookups {
			return
		}
		d.held -= d.cache[i].charged
		delete(d.cache, i)
	}
}
