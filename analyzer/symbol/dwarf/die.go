package dwarf

import std "debug/dwarf"

// die is a debugging information entry with those attributes that name
// functions and place them.
type die struct {
	off      uint64 // in .debug_info
	tag      std.Tag
	children bool
	next     uint64 // offset behind the entry: of its first child, or what follows
	sibling  value

	name, linkage        value
	origin, spec         value
	low, high, ranges    value
	callFile, callLine   value
	stmtList, compDir    value
	addrBase, strOffBase value
	rnglistsBase         value
	dwoName, dwoID       value
	rangesBase           value // GNU's, of a skeleton unit of DWARF 4
}

// Attributes that the standard library has no name for.
const (
	attrMIPSLinkageName = 0x2007 // of old compilers
	attrGNUDwoName      = 0x2130
	attrGNUDwoID        = 0x2131
	attrGNURangesBase   = 0x2132
	attrGNUAddrBase     = 0x2133
)

// slot returns where the value of an attribute belongs, nil for one that
// nothing here needs.
func (d *die) slot(attr uint16) *value {
	switch std.Attr(attr) {
	case std.AttrSibling:
		return &d.sibling
	case std.AttrName:
		return &d.name
	case std.AttrLinkageName, attrMIPSLinkageName:
		return &d.linkage
	case std.AttrAbstractOrigin:
		return &d.origin
	case std.AttrSpecification:
		return &d.spec
	case std.AttrLowpc:
		return &d.low
	case std.AttrHighpc:
		return &d.high
	case std.AttrRanges:
		return &d.ranges
	case std.AttrCallFile:
		return &d.callFile
	case std.AttrCallLine:
		return &d.callLine
	case std.AttrStmtList:
		return &d.stmtList
	case std.AttrCompDir:
		return &d.compDir
	case std.AttrAddrBase, attrGNUAddrBase:
		return &d.addrBase
	case std.AttrStrOffsetsBase:
		return &d.strOffBase
	case std.AttrRnglistsBase:
		return &d.rnglistsBase
	case std.AttrDwoName, attrGNUDwoName:
		return &d.dwoName
	case attrGNUDwoID:
		return &d.dwoID
	case attrGNURangesBase:
		return &d.rangesBase
	}
	return nil
}

// attrWork is how many attributes are read in the time of a unit of work. They need not take a byte.
const attrWork = 8

// entries is a cursor on the unit's entries from off on.
func (d *Data) entries(u *unit, off uint64) cursor {
	c := at(d.s.Info[:u.end], off)
	c.work = d.work
	return c
}

// read reads the entry at c. ok is false for the null entry that ends a list
// of children, and for one that can't be read, which sets c.bad.
func (d *die) read(c *cursor, e encoding, t *abbrevTable) (ok bool) {
	*d = die{off: c.pos}
	code := c.uleb()
	if code == 0 {
		d.next = c.pos
		return false
	}
	a, ok := t.get(code)
	if !ok {
		c.fail()
		return false
	}
	if !c.work.spend(int(a.last-a.first) / attrWork) {
		c.fail()
		return false
	}
	d.tag, d.children = std.Tag(a.tag), a.children
	for _, s := range t.attrs[a.first:a.last] {
		v := c.value(e, s.form, s.implicit)
		if slot := d.slot(s.attr); slot != nil {
			*slot = v
		}
	}
	d.next = c.pos
	return !c.bad
}

// placed tells whether the entry says which code it stands for.
func (d *die) placed() bool { return d.ranges.present() || d.low.present() && d.high.present() }
