package dwarf

import (
	"bytes"
	"math"
)

// address resolves a value of class address.
func (d *Data) address(l *loaded, v value) (uint64, bool) {
	switch v.form {
	case formAddr:
		return v.u, true
	case formAddrx, formAddrx1, formAddrx2, formAddrx3, formAddrx4, formGNUAddrIndex:
		return d.indexedAddress(l, v.u)
	}
	return 0, false
}

// indexedAddress reads entry i of the unit's part of .debug_addr.
func (d *Data) indexedAddress(l *loaded, i uint64) (uint64, bool) {
	base := uint64(0)
	switch {
	case l.root.addrBase.present():
		base = l.root.addrBase.u
	case l.version >= 5:
		base = 8 // behind the header, for units that don't say
	}
	return tableEntry(d.s.Addr, base, i, l.addrSize)
}

// tableEntry reads entry i, of size bytes, of the table at base.
func tableEntry(section []byte, base, i uint64, size uint8) (uint64, bool) {
	if i > math.MaxUint32 || base > uint64(len(section)) {
		return 0, false
	}
	c := at(section, base+i*uint64(size))
	v := c.uint(size)
	return v, !c.bad
}

// offsetSize is the size of an offset in the unit's format.
func (e encoding) offsetSize() uint8 {
	if e.dwarf64 {
		return 8
	}
	return 4
}

// text resolves a value of class string, copying it; "" where it can't.
func (d *Data) text(l *loaded, v value) string {
	return string(d.bytes(l, v))
}

func (d *Data) bytes(l *loaded, v value) []byte {
	text := d.stringOf(l, v)
	if !d.work.spend(1 + len(text)/stringWork) {
		return nil
	}
	return text
}

func (d *Data) stringOf(l *loaded, v value) []byte {
	switch v.form {
	case formString:
		return stringAt(d.s.Info, v.u)
	case formStrp:
		return stringAt(d.s.Str, v.u)
	case formLineStrp:
		return stringAt(d.s.LineStr, v.u)
	case formGNUStrpAlt, formStrpSup:
		if d.alt != nil {
			return stringAt(d.alt.s.Str, v.u)
		}
	case formStrx, formStrx1, formStrx2, formStrx3, formStrx4, formGNUStrIndex:
		base := uint64(0)
		switch {
		case l.root.strOffBase.present():
			base = l.root.strOffBase.u
		case l.version >= 5:
			base = 2 * uint64(l.offsetSize()) // behind the header
		}
		if off, ok := tableEntry(d.s.StrOffsets, base, v.u, l.offsetSize()); ok {
			return stringAt(d.s.Str, off)
		}
	}
	return nil
}

// stringAt returns the string at off, or as much of it as is taken.
func stringAt(section []byte, off uint64) []byte {
	if off >= uint64(len(section)) {
		return nil
	}
	text := section[off:]
	end := bytes.IndexByte(text[:min(len(text), maxString)], 0)
	if end < 0 && len(text) <= maxString {
		return nil // without an end
	}
	if end < 0 {
		end = maxString
	}
	return text[:end]
}

// elsewhere tells whether a value is a reference into the file that dwz made.
func (v value) elsewhere() bool {
	return v.form == formGNURefAlt || v.form == formRefSup4 || v.form == formRefSup8
}

// reference resolves a value of class reference to an offset in .debug_info,
// that of the other file for a reference elsewhere.
func (l *loaded) reference(v value) (uint64, bool) {
	switch v.form {
	case formRef1, formRef2, formRef4, formRef8, formRefUdata:
		return l.off + v.u, v.u < l.end-l.off
	case formRefAddr, formGNURefAlt, formRefSup4, formRefSup8:
		return v.u, true
	}
	return 0, false
}

// constant resolves a value of class constant.
func constant(v value) (uint64, bool) {
	switch v.form {
	case formData1, formData2, formData4, formData8, formUdata, formSdata, formImplicitConst:
		return v.u, true
	}
	return 0, false
}

// budget bounds the work of one lookup. A unit of it is some 20 ns.
type budget struct{ left int }

// spend takes n units of work; false means that there are none left.
func (b *budget) spend(n int) bool {
	b.left -= n
	return b.left >= 0
}
