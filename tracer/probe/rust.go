package probe

import (
	"bytes"
	"slices"
	"strconv"
)

// rustPrefix is what the names of the functions through which Rust allocates
// begin with.
const rustPrefix = "__rust_"

// A Rust program that names an allocator of its own (#[global_allocator])
// defines rustOwn, unless that was inlined; others define rustDefault.
const (
	rustOwn     = "__rg_alloc"
	rustDefault = "__rdl_alloc"
)

// rustName returns the plain name of one of those functions, which compilers
// from 1.88 on mangle: _RNvCs…_7___rustc12___rust_alloc.
func rustName(name []byte) []byte {
	const crate = "7___rustc"
	if !bytes.HasPrefix(name, []byte("_RNvC")) {
		return name
	}
	_, rest, ok := bytes.Cut(name, []byte(crate))
	if !ok {
		return name
	}
	digits := 0
	for digits < len(rest) && rest[digits] >= '0' && rest[digits] <= '9' {
		digits++
	}
	plain := bytes.TrimPrefix(rest[digits:], []byte("_"))
	if n, err := strconv.Atoi(string(rest[:digits])); err != nil || n != len(plain) {
		return name
	}
	return plain
}

// withoutRust drops Rust's own functions unless they lead to an allocator of
// the program's that nothing else here is: where that is malloc, or jemalloc or
// mimalloc linked in, a block would only be seen twice over.
func (s *symbols) withoutRust() {
	other := slices.ContainsFunc(s.found, func(fn symbol) bool { return fn.prefix != "" })
	complete := s.defined["__rust_alloc"] != 0 && s.defined["__rust_dealloc"] != 0
	if complete && !other && (s.defined[rustOwn] != 0 || s.defined[rustDefault] == 0) {
		return
	}
	s.found = slices.DeleteFunc(s.found, func(fn symbol) bool { return fn.group == groupRust })
}
