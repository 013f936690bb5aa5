package heapwalk

import (
	"bytes"
	"encoding/binary"
	"strings"

	"github.com/memtrace/memtrace/analyzer/demangle"
	"github.com/memtrace/memtrace/procfs"
)

// Class says what a block's first words look like.
type Class uint8

const (
	Data    Class = iota // nothing in particular
	Typed                // an object: it begins with a pointer to a virtual table, or to another named constant
	Text                 // printable characters
	Zeros                // zeros
	Pointer              // a pointer into the heap
)

var classWords = [...]string{"data", "type", "text", "zeros", "pointer"}

// String returns the class's word, as in a Report.
func (c Class) String() string { return classWords[c] }

// A Group is blocks of one size that look alike.
type Group struct {
	Size   uint64 // of each, bytes
	Class  Class
	Type   string // Typed: its name
	Module string // Typed: path of the file that has the table
	Live   Sum
}

// grouper groups blocks.
type grouper struct {
	m      *memory
	symbol func(addr uint64) string
	names  demangle.Budget // the process's files have them
	all    []Group
	index  map[groupKey]uint32
	types  map[uint64]*typeName // by first word
	pages  [1 << 10]struct {
		page     uint64
		constant bool
	}
	heap span
}

type groupKey struct {
	size  uint64
	class Class
	typ   *typeName
}

// typeName is what a constant at which blocks begin is called.
type typeName struct{ name, module string }

const maxTypes = 1 << 16

func newGrouper(m *memory, symbol func(addr uint64) string) *grouper {
	g := &grouper{m: m, symbol: symbol, index: make(map[groupKey]uint32), types: make(map[uint64]*typeName)}
	g.heap = m.brk()
	return g
}

// of returns the number of a block's group.
func (g *grouper) of(size uint64, h head) uint32 {
	key := groupKey{size: size}
	key.class, key.typ = g.classify(h)
	if i, ok := g.index[key]; ok {
		return i
	}
	if len(g.all) >= maxGroups {
		return 0
	}
	group := Group{Size: size, Class: key.class}
	if key.typ != nil {
		group.Type, group.Module = key.typ.name, key.typ.module
	}
	i := uint32(len(g.all))
	g.all = append(g.all, group)
	g.index[key] = i
	return i
}

func (g *grouper) classify(h head) (Class, *typeName) {
	first := h[0]
	if first%8 == 0 && first >= pageBytes && first < 1<<47 {
		if t := g.typeOf(first); t != nil {
			return Typed, t
		}
	}
	switch {
	case h == head{}:
		return Zeros, nil
	case g.heap.has(first):
		return Pointer, nil
	case isText(h):
		return Text, nil
	}
	return Data, nil
}

// isText reports whether a block begins with eight printable characters, or
// fewer and a NUL, at least four.
func isText(h head) bool {
	var b [8 * headWords]byte
	for i, w := range h {
		binary.LittleEndian.PutUint64(b[8*i:], w)
	}
	n := 0
	for n < len(b) && printable(b[n]) {
		n++
	}
	return n >= 8 || n >= 4 && b[n] == 0
}

func printable(c byte) bool { return c >= ' ' && c < 0x7f || c == '\n' || c == '\t' }

// typeOf names what a block begins with a pointer to; nil where that is
// nothing constant with a name.
func (g *grouper) typeOf(addr uint64) *typeName {
	if !g.constant(addr) {
		return nil
	}
	if t, ok := g.types[addr]; ok {
		return t
	}
	if len(g.types) >= maxTypes {
		return nil
	}
	t := g.nameOf(addr)
	g.types[addr] = t
	return t
}

// constant reports whether an address is in a file's mapping that cannot be
// written; of late pages it remembers.
func (g *grouper) constant(addr uint64) bool {
	slot := &g.pages[addr>>12%uint64(len(g.pages))]
	if slot.page != addr>>12 {
		v := g.m.mappingOf(addr)
		slot.page = addr >> 12
		slot.constant = v != nil && v.inode != 0 && v.perms&procfs.Write == 0
	}
	return slot.constant
}

// nameOf reads the type's name from the virtual table (Itanium C++ ABI, 2.5.2
// and 2.9.5), or asks the symbols.
func (g *grouper) nameOf(addr uint64) *typeName {
	module := g.m.mappingOf(addr).path
	var table [3]uint64 // offset to top, typeinfo, first function
	if g.m.words(addr-16, table[:]) == nil && table[0] == 0 && table[1]%8 == 0 && g.constant(table[1]) {
		if name := g.typeinfoName(table[1]); name != "" {
			return &typeName{name, module}
		}
	}
	if g.symbol == nil {
		return nil
	}
	name := g.symbol(addr)
	if name == "" {
		return nil
	}
	if text, ok := strings.CutPrefix(g.readable(name), "vtable for "); ok {
		return &typeName{text, module}
	}
	return &typeName{"→ " + name, module}
}

// readable demangles a name. One that costs too much stays as it is, and its blocks without a type.
func (g *grouper) readable(name string) string {
	text, _ := g.names.Demangle(name, demangle.Full)
	return text
}

// typeinfoName is the name in a std::type_info: its second word points to it.
func (g *grouper) typeinfoName(addr uint64) string {
	at := g.m.word(addr + 8)
	if !g.constant(at) {
		return ""
	}
	var name []byte
	for len(name) < maxTypeName {
		var w [1]uint64
		skew := at % 8
		if g.m.words(at-skew, w[:]) != nil {
			return ""
		}
		b := binary.LittleEndian.AppendUint64(nil, w[0])[skew:]
		if end := bytes.IndexByte(b, 0); end >= 0 {
			name = append(name, b[:end]...)
			break
		}
		name = append(name, b...)
		at += 8 - skew
	}
	mangled := "_ZTS" + strings.TrimPrefix(string(name), "*")
	text, ok := strings.CutPrefix(g.readable(mangled), "typeinfo name for ")
	if !ok {
		return ""
	}
	return text
}

// maxTypeName bounds the mangled name of a type.
const maxTypeName = 4 << 10
