package dwarf

import (
	"errors"
	"math/bits"
)

// Sections of a package file, by their number in its index (DWARF 5, section
// 7.3.5.3; version 2, GNU's of DWARF 4, has other numbers for those not here).
const (
	columnInfo       = 1
	columnAbbrev     = 3
	columnStrOffsets = 6
	columnRngLists   = 8
	maxColumns       = 16
	maxProbes        = 1 << 12 // of the hash table, a third of which is free
)

var errPackage = errors.New("bad index of a DWARF package file")

// Package is a file that holds the split parts of many units (.dwp).
type Package struct {
	s              Sections
	columns, units uint64
	slots          uint64 // of the hash table, a power of two
	hashes         cursor
	version        uint32
}

// NewPackage reads the index of a package file, .debug_cu_index. s is its
// sections, all those whose names end in .dwo.
func NewPackage(s Sections, index []byte) (*Package, error) {
	c := at(index, 0)
	p := &Package{s: s, version: c.u32()}
	// Version 5 is a 16-bit number, and padding.
	if p.version&0xffff == 5 {
		p.version = 5
	}
	p.columns, p.units, p.slots = uint64(c.u32()), uint64(c.u32()), uint64(c.u32())
	p.hashes = c
	size := p.slots*12 + 4*p.columns + p.units*p.columns*8
	if c.bad || p.version != 2 && p.version != 5 || p.columns > maxColumns || bits.OnesCount64(p.slots) != 1 ||
		size > uint64(len(index))-c.pos {
		return nil, errPackage
	}
	return p, nil
}

// Unit returns the sections of the unit with the given ID.
func (p *Package) Unit(id uint64) (Sections, bool) {
	row, ok := p.row(id)
	if !ok {
		return Sections{}, false
	}
	s := Sections{Str: p.s.Str}
	for column := range p.columns {
		kind, off, size := p.contribution(row, column)
		switch kind {
		case columnInfo:
			s.Info = part(p.s.Info, off, size)
		case columnAbbrev:
			s.Abbrev = part(p.s.Abbrev, off, size)
		case columnStrOffsets:
			s.StrOffsets = part(p.s.StrOffsets, off, size)
		case columnRngLists:
			if p.version >= 5 {
				s.RngLists = part(p.s.RngLists, off, size)
			}
		}
	}
	return s, true
}

// row looks id up in the hash table (DWARF 5, section 7.3.5.3).
func (p *Package) row(id uint64) (uint64, bool) {
	mask := p.slots - 1
	slot, step := id&mask, id>>32&mask|1
	for range min(p.slots, maxProbes) {
		signature, index := p.hashes, p.hashes
		signature.skip(slot * 8)
		index.skip(p.slots*8 + slot*4)
		row := uint64(index.u32())
		if row == 0 || row > p.units {
			return 0, false
		}
		if signature.u64() == id {
			return row - 1, true
		}
		slot = (slot + step) & mask
	}
	return 0, false
}

// contribution returns where a column's part of a row lies.
func (p *Package) contribution(row, column uint64) (kind uint32, off, size uint64) {
	headings := p.hashes
	headings.skip(p.slots * 12)
	offsets := headings
	offsets.skip(4*p.columns + 4*(row*p.columns+column))
	sizes := offsets
	sizes.skip(4 * p.units * p.columns)
	headings.skip(4 * column)
	return headings.u32(), uint64(offsets.u32()), uint64(sizes.u32())
}

func part(section []byte, off, size uint64) []byte {
	if off > uint64(len(section)) || size > uint64(len(section))-off {
		return nil
	}
	return section[off : off+size : off+size]
}
