package dwarf

import (
	"errors"
	"fmt"
)

// Splitter finds the sections of the other part of a split unit ("skeleton"),
// all those whose names end in .dwo: by the name of its file, the directory
// of compilation, which the name may be relative to, and its ID.
type Splitter func(name, dir string, id uint64) (Sections, error)

// splitPart is the other part of a unit, which has the functions.
type splitPart struct {
	tried  bool
	data   *Data
	loaded *loaded
}

var errOtherSplit = errors.New("it belongs to another build")

// splitOf returns the other part of l, once found; nil where there is none.
// The error comes once.
func (d *Data) splitOf(l *loaded) (*splitPart, error) {
	if l.split.tried {
		return l.split.found(), nil
	}
	l.split.tried = true
	id := l.id
	if l.version < 5 {
		id = l.root.dwoID.u
	}
	name := d.text(l, l.root.dwoName)
	if name == "" || l.version >= 5 && l.kind != unitSkeleton || d.s.Split == nil {
		return nil, nil
	}
	s, err := d.s.Split(name, d.text(l, l.root.compDir), id)
	if err == nil {
		err = d.join(l, s, id)
	}
	if err != nil {
		return nil, fmt.Errorf("split DWARF %q of unit at %#x: %w", name, l.off, err)
	}
	return l.split.found(), nil
}

func (p *splitPart) found() *splitPart {
	if p.loaded == nil {
		return nil
	}
	return p
}

// join makes the unit in s with the given ID the other part of l.
func (d *Data) join(l *loaded, s Sections, id uint64) error {
	// Addresses, and in DWARF 4 ranges, stay with the skeleton.
	s.Addr = d.s.Addr
	if l.version < 5 {
		s.Ranges = d.s.Ranges
	}
	data := d.beside(s)
	var err error
	if data.units, err = parseUnits(s.Info, d.most.units, d.work); err != nil {
		return err
	}
	for i, u := range data.units {
		if u.version >= 5 && (u.kind != unitSplitCompile || u.id != id) {
			continue
		}
		part, err := data.load(i)
		if err != nil {
			return err
		}
		if u.version < 5 && part.root.dwoID.u != id {
			continue
		}
		d.inherit(l, part)
		l.split.data, l.split.loaded = data, part
		return nil
	}
	return errOtherSplit
}

// inherit gives part what only its skeleton l says.
func (d *Data) inherit(l, part *loaded) {
	part.root.low = value{form: formAddr, u: d.base(l)}
	part.root.addrBase = l.root.addrBase
	part.rangesBase = l.root.rangesBase.u
	if !part.root.rnglistsBase.present() {
		// Behind the header: length, version, two sizes, count of offsets.
		size := uint64(12)
		if part.dwarf64 {
			size = 20
		}
		part.root.rnglistsBase = value{form: formSecOffset, u: size}
	}
}
