package render

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// clean makes s safe to print: every character that is not printable, such as
// control characters, escape sequences, bidirectional overrides and bytes that
// are not UTF-8, becomes \x1b or \u202e.
func clean(s string) string {
	if isClean(s) {
		return s
	}
	return string(appendClean(make([]byte, 0, len(s)+16), s))
}

func isClean(s string) bool {
	for _, r := range s {
		// RuneError may be a byte that is no UTF-8: leave it to appendClean.
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}

// appendClean appends clean(s) to buf and returns it.
func appendClean(buf []byte, s string) []byte {
	for i := 0; i < len(s); {
		if c := s[i]; c >= ' ' && c < 0x7f {
			buf = append(buf, c)
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1, r < 0x80:
			buf = append(buf, '\\', 'x', hexDigits[s[i]>>4], hexDigits[s[i]&15])
		case unicode.IsPrint(r):
			buf = append(buf, s[i:i+n]...)
		default:
			buf = appendEscapedRune(buf, r)
		}
		i += n
	}
	return buf
}

func appendEscapedRune(buf []byte, r rune) []byte {
	digits := 4
	if r > 0xffff {
		digits = 8
		buf = append(buf, '\\', 'U')
	} else {
		buf = append(buf, '\\', 'u')
	}
	for shift := 4 * (digits - 1); shift >= 0; shift -= 4 {
		buf = append(buf, hexDigits[r>>shift&15])
	}
	return buf
}

// runeColumns is how many terminal columns a printable rune takes: 0 for
// combining marks, 2 for East Asian wide characters and emoji (the ranges of
// Unicode's EastAsianWidth.txt, rounded outward), else 1.
func runeColumns(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case r >= 0x1100 && r <= 0x115f, r >= 0x2e80 && r <= 0xa4cf, r >= 0xa960 && r <= 0xa97c,
		r >= 0xac00 && r <= 0xd7a3, r >= 0xf900 && r <= 0xfaff, r >= 0xfe30 && r <= 0xfe6f,
		r >= 0xff00 && r <= 0xff60, r >= 0xffe0 && r <= 0xffe6, r >= 0x1f300 && r <= 0x1faff,
		r >= 0x16fe0 && r <= 0x18cff, r >= 0x1b000 && r <= 0x1b2ff, r >= 0x20000 && r <= 0x3fffd:
		return 2
	}
	return 1
}

// columns is the width of a clean string on a terminal.
func columns(s string) int {
	n := 0
	for _, r := range s {
		n += runeColumns(r)
	}
	return n
}

// head is the longest prefix of s that fits into width columns.
func head(s string, width int) string {
	used := 0
	for i, r := range s {
		if used += runeColumns(r); used > width {
			return s[:i]
		}
	}
	return s
}

// tail is the longest suffix of s that fits into width columns.
func tail(s string, width int) string {
	used, i := 0, len(s)
	for i > 0 {
		r, n := utf8.DecodeLastRuneInString(s[:i])
		if used += runeColumns(r); used > width {
			break
		}
		i -= n
	}
	return s[i:]
}

// clip cuts the end off s so that it fits into width columns; 0 means no limit.
func clip(s string, width int) string {
	if width <= 0 || columns(s) <= width {
		return s
	}
	return head(s, width-1) + "…"
}

// elide cuts the middle out of s so that it fits into width columns: both the
// namespace and the method of a long C++ name stay visible.
func elide(s string, width int) string {
	if width <= 0 || columns(s) <= width {
		return s
	}
	front := (width - 1) / 2
	return head(s, front) + "…" + tail(s, width-1-front)
}

// elidePath shortens a path to width columns, keeping its end: "…/src/list.c".
func elidePath(path string, width int) string {
	if width <= 0 || columns(path) <= width {
		return path
	}
	rest := path
	for {
		slash := strings.IndexByte(rest[min(1, len(rest)):], '/')
		if slash < 0 {
			break
		}
		rest = rest[slash+1:]
		if columns(rest)+1 <= width {
			return "…" + rest
		}
	}
	return elide(rest, width)
}

// pad fills s with spaces to width columns, at its left where right is true.
func pad(s string, width int, right bool) string {
	fill := width - columns(s)
	if fill <= 0 {
		return s
	}
	if right {
		return strings.Repeat(" ", fill) + s
	}
	return s + strings.Repeat(" ", fill)
}
