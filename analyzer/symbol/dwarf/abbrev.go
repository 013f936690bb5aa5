package dwarf

import "errors"

const (
	// The largest abbreviation tables seen have some thousand entries.
	maxAbbrevs = 1 << 16
	maxAttrs   = 1 << 18
)

var errAbbrev = errors.New("bad abbreviation table")

// attrSpec is one attribute of an abbreviation.
type attrSpec struct {
	attr, form uint16
	implicit   int64
}

// abbrev is the layout of entries with one code.
type abbrev struct {
	tag         uint16
	children    bool
	first, last uint32 // attributes, in abbrevTable.attrs
}

// abbrevTable holds the abbreviations of one unit.
type abbrevTable struct {
	dense  []abbrev // codes 1, 2, 3…, as all compilers number them
	sparse map[uint64]abbrev
	attrs  []attrSpec
}

func (t *abbrevTable) get(code uint64) (abbrev, bool) {
	if code-1 < uint64(len(t.dense)) {
		return t.dense[code-1], true
	}
	a, ok := t.sparse[code]
	return a, ok
}

// parseAbbrevs reads the table at off; if only is not zero, no further than
// to that code. work counts what was read.
func parseAbbrevs(section []byte, off, only uint64, work *budget) (*abbrevTable, error) {
	c := at(section, off)
	t := &abbrevTable{}
	for n := 0; ; n++ {
		code := c.uleb()
		if code == 0 || c.bad {
			break
		}
		if n >= maxAbbrevs || len(t.attrs) > maxAttrs || !work.spend(1) {
			return nil, errAbbrev
		}
		a := t.read(&c)
		work.spend(int(a.last - a.first)) // memory is taken for them
		t.add(code, a)
		if code == only {
			return t, nil
		}
	}
	if c.bad || only != 0 {
		return nil, errAbbrev
	}
	return t, nil
}

// read parses one abbreviation behind its code.
func (t *abbrevTable) read(c *cursor) abbrev {
	a := abbrev{first: uint32(len(t.attrs))}
	a.tag = uint16(c.uleb())
	a.children = c.u8() != 0
	for len(t.attrs) <= maxAttrs && !c.bad {
		s := attrSpec{attr: uint16(c.uleb()), form: uint16(c.uleb())}
		if s.form == formImplicitConst {
			s.implicit = c.sleb()
		}
		if s.attr == 0 && s.form == 0 {
			break
		}
		t.attrs = append(t.attrs, s)
	}
	a.last = uint32(len(t.attrs))
	return a
}

func (t *abbrevTable) add(code uint64, a abbrev) {
	if code == uint64(len(t.dense))+1 {
		t.dense = append(t.dense, a)
		return
	}
	if t.sparse == nil {
		t.sparse = map[uint64]abbrev{}
	}
	t.sparse[code] = a
}
