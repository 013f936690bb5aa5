package render

// What tables outside of a Report are made with, so that all of memtrace
// writes figures and names the same way.

// Clean makes s safe to print: what is not printable becomes \x1b or \u202e.
func Clean(s string) string { return clean(s) }

// Columns is the width of a clean string on a terminal.
func Columns(s string) int { return columns(s) }

// Clip cuts the end off a clean string so that it fits into width columns; 0
// means no limit.
func Clip(s string, width int) string { return clip(s, width) }

// Pad fills s with spaces to width columns, at its left where right is true.
func Pad(s string, width int, right bool) string { return pad(s, width, right) }

// ElidePath shortens a clean path to width columns, keeping its end.
func ElidePath(path string, width int) string { return elidePath(path, width) }

// ShortSize formats bytes with powers of 1024 in at most five columns: "0",
// "1.23K", "12.3M".
func ShortSize(n uint64) string { return shortSize(n) }

// SignedSize is ShortSize with a sign; 0 has none.
func SignedSize(n int64) string { return signed(n, shortSize) }

// ShortCount formats a count in at most five columns: "99999", "123k".
func ShortCount(n uint64) string { return shortCount(n) }
