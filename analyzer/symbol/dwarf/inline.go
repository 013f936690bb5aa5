package dwarf

import std "debug/dwarf"

const (
	// maxInlined is the deepest nest of inlined functions followed.
	maxInlined = 256
	// maxHops bounds the chain from an instance of a function to its name.
	maxHops = 16
)

// call is an entry on the way from a function to the innermost inlined one.
type call struct {
	name       string
	linkage    bool
	file, line uint64 // of the call, where inlined
}

// chain returns the function at off and the functions inlined into each other
// at addr, outermost first.
func (d *Data) chain(l *loaded, off, addr uint64) ([]call, error) {
	c := d.entries(&l.unit, off)
	var e die
	if !e.read(&c, l.encoding, l.abbrevs) {
		return nil, d.damaged()
	}
	name, linkage := d.nameOf(l, &e)
	calls := []call{{name: name, linkage: linkage}}
	if !e.children {
		return calls, nil
	}
	w := inlineWalk{d: d, l: l, c: &c, addr: addr}
	err := w.run(func(e *die) {
		file, _ := constant(e.callFile)
		line, _ := constant(e.callLine)
		name, linkage := d.nameOf(l, e)
		calls = append(calls, call{name: name, linkage: linkage, file: file, line: line})
	})
	return calls, err
}

// inlineWalk goes through the entries below a function. It keeps the depth
// below the function, so that it knows where the function ends, and the depth
// of the inlined function found last: once that has ended, no other can be
// part of the chain.
type inlineWalk struct {
	d     *Data
	l     *loaded
	c     *cursor
	addr  uint64
	depth int // of the entries being read; 1 is the function's children
}

// run calls found with each inlined function that covers the address.
func (w *inlineWalk) run(found func(*die)) error {
	var e die
	inside, count := 0, 0
	for w.depth = 1; w.depth > inside; {
		if !w.d.work.spend(1) {
			return errBudget
		}
		if !e.read(w.c, w.l.encoding, w.l.abbrevs) {
			if w.c.bad {
				return w.d.damaged()
			}
			w.depth--
			continue
		}
		hit, skip, err := w.judge(&e)
		if err != nil {
			return err
		}
		if hit && count < maxInlined {
			count++
			found(&e)
			if !e.children {
				return nil
			}
			inside = w.depth
		}
		if skip && w.skip(&e) != nil {
			return w.d.damaged()
		}
		if e.children && !skip {
			w.depth++
		}
	}
	return nil
}

// judge says whether e is an inlined function at the address, and else
// whether what lies below it can be skipped.
func (w *inlineWalk) judge(e *die) (hit, skip bool, err error) {
	switch e.tag {
	case std.TagInlinedSubroutine:
		hit, err = w.d.contains(w.l, e, w.addr)
		return hit, !hit, err
	case std.TagLexDwarfBlock, std.TagTryDwarfBlock, std.TagCatchDwarfBlock:
		return false, false, nil
	}
	return false, true, nil
}

// skip moves behind the children of e.
func (w *inlineWalk) skip(e *die) error {
	if w.l.skipChildren(w.c, e) {
		return nil
	}
	// No sibling attribute, as clang writes it: entry by entry.
	var child die
	for depth := 1; depth > 0; {
		if !w.d.work.spend(1) {
			return errBudget
		}
		if child.read(w.c, w.l.encoding, w.l.abbrevs) {
			if child.children && !w.l.skipChildren(w.c, &child) {
				depth++
			}
		} else if w.c.bad {
			return w.d.damaged()
		} else {
			depth--
		}
	}
	return nil
}

// nameOf returns the linkage name of the function that e is an instance of,
// else its plain name: following abstract origins and specifications, which
// may lead into other units.
func (d *Data) nameOf(l *loaded, e *die) (name string, linkage bool) {
	for hop := 0; hop < maxHops; hop++ {
		if s := d.text(l, e.linkage); s != "" {
			return s, true
		}
		if name == "" {
			name = d.text(l, e.name)
		}
		ref := e.origin
		if !ref.present() {
			ref = e.spec
		}
		off, ok := l.reference(ref)
		if !ok {
			break
		}
		if ref.elsewhere() {
			if d = d.supplement(); d == nil {
				break
			}
			l = nil
		}
		if l, e = d.entryAt(l, off); e == nil {
			break
		}
	}
	return name, false
}

// supplement returns the file that dwz made, with its units hopped over; nil
// where there is none.
func (d *Data) supplement() *Data {
	if d.alt != nil && !d.alt.indexed {
		d.alt.indexed = true
		// What precedes a damaged unit can be read.
		d.alt.units, _ = parseUnits(d.alt.s.Info, d.most.units, d.work)
	}
	return d.alt
}

// entryAt reads the entry at off, in l or in another unit.
func (d *Data) entryAt(l *loaded, off uint64) (*loaded, *die) {
	if l == nil || off < l.first || off >= l.end {
		i, ok := d.unitAt(off)
		if !ok {
			return nil, nil
		}
		other, err := d.load(i)
		if err != nil {
			return nil, nil
		}
		l = other
	}
	c := d.entries(&l.unit, off)
	e := new(die)
	if !e.read(&c, l.encoding, l.abbrevs) {
		return nil, nil
	}
	return l, e
}
