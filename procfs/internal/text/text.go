// Package text parses the small grammars of the files in /proc, /sys and
// cgroupfs: numbers, fields, "key: value" lines. Nothing in it allocates, and
// nothing in it trusts its input: a number that is too large is refused.
package text

import "bytes"

// Decimal parses the digits at the start of b and returns what follows them.
// It fails without digits and on more than 64 bits.
func Decimal(b []byte) (v uint64, rest []byte, ok bool) {
	i := 0
	for ; i < len(b); i++ {
		d := uint64(b[i] - '0')
		if d > 9 {
			break
		}
		if v > (1<<64-1)/10 || v*10 > 1<<64-1-d {
			return 0, b, false
		}
		v = v*10 + d
	}
	return v, b[i:], i > 0
}

// Hexadecimal parses the lower-case hexadecimal digits at the start of b.
func Hexadecimal(b []byte) (v uint64, rest []byte, ok bool) {
	i := 0
	for ; i < len(b); i++ {
		d := uint64(b[i])
		switch {
		case d-'0' <= 9:
			d -= '0'
		case d-'a' <= 5:
			d -= 'a' - 10
		default:
			return v, b[i:], i > 0 && i <= 16
		}
		v = v<<4 | d
	}
	return v, b[i:], i > 0 && i <= 16
}

// SkipBlanks returns b from its first byte on that is no blank or tab.
func SkipBlanks(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	return b
}

// Field returns the first blank-separated field of b and what follows it.
func Field(b []byte) (f, rest []byte) {
	b = SkipBlanks(b)
	for i, c := range b {
		if c == ' ' || c == '\t' {
			return b[:i], b[i+1:]
		}
	}
	return b, nil
}

// Keyed splits a line such as "VmRSS:\t  12 kB" into "VmRSS" and "12 kB".
func Keyed(line []byte) (key, value []byte, ok bool) {
	i := bytes.IndexByte(line, ':')
	if i <= 0 {
		return nil, nil, false
	}
	return line[:i], SkipBlanks(line[i+1:]), true
}

// Kilobytes parses "12 kB" as 12,288.
func Kilobytes(value []byte) (uint64, bool) {
	v, _, ok := Decimal(value)
	if !ok || v > 1<<54-1 {
		return 0, false
	}
	return v << 10, true
}

// CutLine returns the first line of data and what follows it.
func CutLine(data []byte) (line, rest []byte) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return data[:i], data[i+1:]
	}
	return data, nil
}

// UntilNUL returns b up to its first NUL byte.
func UntilNUL(b []byte) []byte {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return b[:i]
	}
	return b
}
