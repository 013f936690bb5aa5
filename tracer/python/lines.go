package python

// lineOf returns the source line of the instruction at a code object's byte at; 0: it has none. minor is the version. What a
// table says beyond its end is not looked at.
func lineOf(minor int, table []byte, first, at int32) int {
	if at < 0 {
		return int(max(first, 0)) // before the first instruction
	}
	var line int32
	switch {
	case minor >= 11:
		line = lineByLocations(table, first, at)
	case minor == 10:
		line = lineByRanges(table, first, at)
	default:
		line = lineByIncrements(table, first, at)
	}
	return int(max(line, 0))
}

// lineByIncrements reads co_lnotab: by how much address and line rise from one line to the next (to 3.9).
func lineByIncrements(table []byte, line, at int32) int32 {
	addr := int32(0)
	for i := 0; i+1 < len(table); i += 2 {
		if addr += int32(table[i]); addr > at {
			break
		}
		line += int32(int8(table[i+1]))
	}
	return line
}

// lineByRanges reads 3.10's co_linetable: how long each range of code is, and by how much its line differs.
func lineByRanges(table []byte, line, at int32) int32 {
	const none = -128
	end := int32(0)
	for i := 0; i+1 < len(table); i += 2 {
		delta := int32(int8(table[i+1]))
		if delta != none {
			line += delta
		}
		if end += int32(table[i]); at < end {
			if delta == none {
				return 0
			}
			return line
		}
	}
	return 0
}

// The kinds of entries of the table of locations (3.11 on) that say of the line in ways of their own; Objects/locations.md.
const (
	locationOneLine  = 10 // to 12: so many lines further
	locationNoColumn = 13
	locationLong     = 14
	locationNone     = 15
)

// lineByLocations reads the table of locations.
func lineByLocations(table []byte, line, at int32) int32 {
	end := int32(0)
	for i := 0; i < len(table); {
		head := table[i]
		kind := int32(head >> 3 & 15)
		end += int32(head&7+1) * instructionBytes
		switch {
		case kind == locationNoColumn || kind == locationLong:
			line += signedVarint(table[i+1:])
		case kind >= locationOneLine && kind < locationNoColumn:
			line += kind - locationOneLine
		}
		if at < end {
			if kind == locationNone {
				return 0
			}
			return line
		}
		for i++; i < len(table) && table[i]&128 == 0; i++ { // an entry's first byte alone has that bit
		}
	}
	return 0
}

// signedVarint reads a number of six bits a byte, the lowest first; its lowest bit is the sign.
func signedVarint(b []byte) int32 {
	var v uint32
	for shift, i := 0, 0; i < len(b) && shift < 32; shift, i = shift+6, i+1 {
		v |= uint32(b[i]&63) << shift
		if b[i]&64 == 0 {
			break
		}
	}
	if v&1 != 0 {
		return -int32(v >> 1)
	}
	return int32(v >> 1)
}
