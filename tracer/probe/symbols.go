package probe

import (
	"bytes"
	"debug/elf"
	"fmt"
	"slices"
)

// symbol is one definition of an allocation function.
type symbol struct {
	function
	addr  uint64 // virtual address
	size  uint64 // bytes; 0 where unknown
	ifunc bool   // addr is the resolver's

	mayForward string // see Probe.MayForward
}

// symbols is what a symbol table says about allocation.
type symbols struct {
	found   []symbol
	defined map[string]bool // marks of families and allocation functions
	count   int             // function symbols of any name that are defined
	locals  []symbol        // local ones with the name of an allocation function; see adopt
	aliases map[string]uint64
}

// has says whether both malloc and free are defined, under a prefix.
func (s *symbols) has(prefix string) bool {
	return s.defined[prefix+"malloc"] && s.defined[prefix+"free"]
}

// wanted are the names that readSymbols records in defined.
var wanted = indexWanted()

func indexWanted() map[string]bool {
	names := map[string]bool{libcMark: true}
	for _, mark := range familyMarks {
		names[mark.symbol] = true
	}
	for name := range functionsByName {
		names[name] = true
	}
	return names
}

const symbolSize = 24 // Elf64_Sym

// readSymbols reads a symbol table section of the given type. A file without
// one gives the zero symbols.
func (im *image) readSymbols(t elf.SectionType) (symbols, error) {
	out := symbols{defined: map[string]bool{}, aliases: map[string]uint64{}}
	s := im.section(t)
	if s == nil {
		return out, nil
	}
	table, err := im.table(s, maxTable)
	if err != nil {
		return out, err
	}
	names, err := im.symbolNames(s)
	if err != nil {
		return out, err
	}
	for ; len(table) >= symbolSize; table = table[symbolSize:] {
		out.add(im.decodeSymbol(table), names)
	}
	out.adopt()
	return out, nil
}

func (im *image) symbolNames(s *elf.Section) ([]byte, error) {
	strs := im.linked(s)
	if strs == nil || strs.Type != elf.SHT_STRTAB {
		return nil, fmt.Errorf("section %q names no string table: corrupt ELF file", s.Name)
	}
	return im.table(strs, maxTable)
}

// rawSymbol is an Elf64_Sym.
type rawSymbol struct {
	name        uint32
	info, other byte
	section     elf.SectionIndex
	value, size uint64
}

func (im *image) decodeSymbol(b []byte) rawSymbol {
	return rawSymbol{
		name: im.order.Uint32(b), info: b[4], other: b[5],
		section: elf.SectionIndex(im.order.Uint16(b[6:])),
		value:   im.order.Uint64(b[8:]), size: im.order.Uint64(b[16:]),
	}
}

// add records a symbol if it is the definition of a function of interest. A
// local symbol counts only if it was made local by its visibility, or has a
// prefix: a file's own static function named free is nobody's allocator.
func (s *symbols) add(raw rawSymbol, names []byte) {
	kind := elf.ST_TYPE(raw.info)
	if raw.section == elf.SHN_UNDEF || raw.value == 0 || kind != elf.STT_FUNC && kind != elf.STT_GNU_IFUNC {
		return
	}
	s.count++
	if uint64(raw.name) >= uint64(len(names)) {
		return
	}
	name := names[raw.name:min(len(names), int(raw.name)+64)]
	end := bytes.IndexByte(name, 0)
	if end < 0 {
		return
	}
	if public, ok := bytes.CutPrefix(name[:end], libcAlias); ok {
		s.aliases[string(public)] = raw.value
	}
	if !wanted[string(name[:end])] {
		return
	}
	fn, function := functionsByName[string(name[:end])]
	found := symbol{function: fn, addr: raw.value, size: raw.size, ifunc: kind == elf.STT_GNU_IFUNC}
	hidden := elf.ST_VISIBILITY(raw.other) != elf.STV_DEFAULT
	if elf.ST_BIND(raw.info) == elf.STB_LOCAL && !hidden && !prefixed(string(name[:end])) {
		if function {
			s.locals = append(s.locals, found)
		}
		return
	}
	s.defined[string(name[:end])] = true
	if function {
		s.found = append(s.found, found)
	}
}

// libcAlias is what glibc's own names for its public functions begin with.
var libcAlias = []byte("__libc_")

// adopt takes local symbols for the allocator's where the C library has another
// name for the same code: glibc's static-pie programs have malloc as a local
// symbol, at the address of __libc_malloc.
func (s *symbols) adopt() {
	for _, local := range s.locals {
		if at, ok := s.aliases[local.name]; ok && at == local.addr {
			s.defined[local.name] = true
			s.found = append(s.found, local)
		}
	}
}

// allocator reads the symbols of the allocator in the file. A library has
// what it exports. A program may also have one of its own, prefixed or not,
// that only the full table names.
func (im *image) allocator(executable bool) (symbols, error) {
	dynamic, err := im.readSymbols(elf.SHT_DYNSYM)
	if err != nil || dynamic.has("") {
		return dynamic.only(""), err
	}
	if !executable {
		return symbols{}, nil
	}
	full, err := im.readSymbols(elf.SHT_SYMTAB)
	if err != nil {
		return full, err
	}
	full.count += dynamic.count
	return full.only(prefixes[:]...), nil
}

// only drops the functions of prefixes that are not given or under which no
// complete allocator is defined.
func (s symbols) only(given ...string) symbols {
	var kept []symbol
	for _, fn := range s.found {
		if s.has(fn.prefix) && slices.Contains(given, fn.prefix) {
			kept = append(kept, fn)
		}
	}
	s.found = kept
	return s
}
