package dwarf

import (
	std "debug/dwarf"
	"errors"
)

var errEntries = errors.New("bad debugging information entry")

// damaged says why an entry could not be read.
func (d *Data) damaged() error {
	if d.work.left < 0 {
		return errBudget
	}
	return errEntries
}

// functionTable is the functions of one unit by address.
type functionTable struct {
	spanTable      // ref is the entry's offset
	built     bool // by the quick pass
	complete  bool // by the pass that skips nothing
}

// functionAt returns the offset of the entry of the innermost function of the
// unit that covers addr.
func (d *Data) functionAt(l *loaded, addr uint64) (off uint64, ok bool, err error) {
	if !l.functions.built {
		l.functions.built = true
		if err := d.collectFunctions(l, false); err != nil {
			l.functions.complete = true
			return 0, false, err
		}
	}
	if off, ok = l.functions.narrowest(addr); ok || l.functions.complete {
		return off, ok, nil
	}
	// The quick pass leaps over what functions and types hold. A function
	// nested in there is rare; look for it only now.
	l.functions.complete = true
	err = d.collectFunctions(l, true)
	off, ok = l.functions.narrowest(addr)
	return off, ok, err
}

func (t *functionTable) narrowest(addr uint64) (off uint64, ok bool) {
	size := ^uint64(0)
	t.find(addr, func(s span) bool {
		if n := s.hi - s.lo; n < size {
			size, off, ok = n, s.ref, true
		}
		return true
	})
	return off, ok
}

// collectFunctions walks the unit's entries and notes the functions that have
// code. The quick pass follows DW_AT_sibling past the children of everything
// but units, namespaces and modules.
func (d *Data) collectFunctions(l *loaded, all bool) error {
	l.functions.spans = nil
	c := d.entries(&l.unit, l.first)
	var e die
	for !c.done() {
		if !d.work.spend(1) {
			return errBudget
		}
		if !e.read(&c, l.encoding, l.abbrevs) {
			if c.bad {
				return d.damaged()
			}
			continue
		}
		if e.tag == std.TagSubprogram && e.placed() {
			if err := d.addFunction(l, &e); err != nil {
				return err
			}
		}
		if !all {
			l.leap(&c, &e)
		}
	}
	l.functions.sort()
	return nil
}

func (d *Data) addFunction(l *loaded, e *die) error {
	full := false
	err := d.pcs(l, e, func(lo, hi uint64) bool {
		full = !l.functions.add(lo, hi, e.off, d.most.spans) || !d.work.spend(sortWork)
		return !full
	})
	if full {
		return errBudget
	}
	return err
}

// leap moves c behind the children of e where e says where that is and they
// can't hold functions in the ordinary way.
func (l *loaded) leap(c *cursor, e *die) {
	if !e.children || e.tag == std.TagNamespace || e.tag == std.TagModule || e.tag == std.TagCompileUnit {
		return
	}
	l.skipChildren(c, e)
}

// skipChildren moves c behind the children of e, if its sibling attribute
// says where that is; it only ever moves forward.
func (l *loaded) skipChildren(c *cursor, e *die) bool {
	if !e.children {
		return true
	}
	next, ok := l.reference(e.sibling)
	if !ok || next < c.pos || next >= l.end {
		return false
	}
	c.pos = next
	return true
}
