package probe

import (
	"bytes"
	"debug/dwarf"
	"debug/elf"
	"encoding/binary"
	"fmt"
)

// Limits on the DWARF that functions are looked for in. debug/dwarf is for files that are trusted: it copies each
// string and each attribute of what it passes, and reads the abbreviations of all units at once.
const (
	maxDWARF      = 64 << 20  // .debug_info searched for functions
	maxDWARFAll   = 192 << 20 // with the sections that names and addresses are in
	maxDWARFUnits = 1 << 17
	maxAbbrevs    = 4 << 20 // attributes of all units' abbreviations
	maxAttributes = 256     // of one abbreviation; compilers write some 20
	maxDWARFText  = 64 << 10
	maxDWARFWork  = 32 << 20 // entries, with what their attributes and strings take
	maxFields     = 24       // of an entry that are read in the time of one
)

var errDWARF = fmt.Errorf("it takes more to read than that of any honest file: %w", errTooLarge)

// dwarfData is (*elf.File).DWARF of the sections that functions need, once it is known what they ask for.
func (im *image) dwarfData() (*dwarf.Data, error) {
	data := map[string][]byte{}
	left := uint64(maxDWARFAll)
	for _, name := range []string{"abbrev", "info", "str", "line_str", "str_offsets", "addr", "rnglists", "ranges"} {
		s := im.file.Section(".debug_" + name)
		if s == nil || s.Type == elf.SHT_NOBITS {
			continue
		}
		if s.Size > left {
			return nil, errDWARF
		}
		left -= s.Size
		var err error
		if data[name], err = s.Data(); err != nil {
			return nil, err
		}
	}
	if err := checkUnits(data["info"], data["abbrev"], im.order); err != nil {
		return nil, err
	}
	for _, name := range []string{"str", "line_str"} {
		if !shortStrings(data[name]) {
			return nil, errDWARF
		}
	}
	d, err := dwarf.New(data["abbrev"], nil, nil, data["info"], nil, nil, data["ranges"], data["str"])
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"line_str", "str_offsets", "addr", "rnglists"} {
		if err := d.AddSection(".debug_"+name, data[name]); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// shortStrings says whether no string of a section is longer than any function's name.
func shortStrings(section []byte) bool {
	for len(section) > 0 {
		end := bytes.IndexByte(section[:min(len(section), maxDWARFText)], 0)
		if end < 0 {
			return false
		}
		section = section[end+1:]
	}
	return true
}

// checkUnits bounds what the abbreviations of all units take. What can't be read is left to debug/dwarf.
func checkUnits(info, abbrev []byte, order binary.ByteOrder) error {
	seen := map[uint64]bool{}
	attributes := 0
	for units := 0; len(info) >= 12; units++ {
		length, head, offset := uint64(order.Uint32(info)), uint64(4), 4
		if length == 0xffffffff {
			length, head, offset = order.Uint64(info[4:]), 12, 8
		}
		if units >= maxDWARFUnits {
			return errDWARF
		}
		if length > uint64(len(info))-head {
			return nil
		}
		unit := info[head : head+length]
		info = info[head+length:]
		at := 2 // behind the version
		if len(unit) >= 2 && order.Uint16(unit) >= 5 {
			at = 4
		}
		if len(unit) < at+offset {
			continue
		}
		table := uint64(order.Uint32(unit[at:]))
		if offset == 8 {
			table = order.Uint64(unit[at:])
		}
		if seen[table] || table > uint64(len(abbrev)) {
			continue
		}
		seen[table] = true
		if attributes += countAttributes(abbrev[table:], maxAbbrevs-attributes); attributes >= maxAbbrevs {
			return errDWARF
		}
	}
	return nil
}

// countAttributes counts those of a table of abbreviations, up to a limit, which it also returns where one of them
// has too many. Each abbreviation counts as one more.
func countAttributes(table []byte, limit int) (n int) {
	bad := false
	number := func() (v uint64) {
		v, size := binary.Uvarint(table)
		if bad = bad || size <= 0; !bad {
			table = table[size:]
		}
		return v
	}
	for n < limit && number() != 0 && !bad {
		number() // the tag
		if n++; len(table) == 0 {
			return n
		}
		table = table[1:] // whether it has children
		for own := 0; ; own++ {
			attribute, form := number(), number()
			if bad || attribute == 0 && form == 0 {
				break
			}
			if n++; own >= maxAttributes || n >= limit {
				return limit
			}
			const implicitConst = 0x21
			if form == implicitConst {
				number()
			}
		}
	}
	return n
}

// dwarfWalk goes through entries, as long as there is work left.
type dwarfWalk struct {
	r    *dwarf.Reader
	left int
}

// next is (*dwarf.Reader).Next.
func (w *dwarfWalk) next() (*dwarf.Entry, error) {
	if w.left <= 0 {
		return nil, errDWARF
	}
	entry, err := w.r.Next()
	if err != nil {
		return nil, fmt.Errorf("read DWARF: %w", err)
	}
	w.left--
	if entry != nil {
		w.left -= max(0, len(entry.Field)-maxFields)
		for _, field := range entry.Field {
			if text, ok := field.Val.(string); ok {
				w.left -= len(text) / 32
			}
		}
	}
	return entry, nil
}

// skip moves behind the children of an entry, forward alone.
func (w *dwarfWalk) skip(entry *dwarf.Entry) error {
	for depth := 0; ; {
		switch sibling, ok := entry.Val(dwarf.AttrSibling).(dwarf.Offset); {
		case entry.Tag == 0:
			depth--
		case entry.Children && ok && sibling > entry.Offset:
			w.r.Seek(sibling)
		case entry.Children:
			depth++
		}
		if depth <= 0 {
			return nil
		}
		var err error
		if entry, err = w.next(); err != nil || entry == nil {
			return err
		}
	}
}
