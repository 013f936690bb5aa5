package probe

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// symbol is one definition of an allocation function.
type symbol struct {
	function
	addr   uint64 // virtual address
	size   uint64 // bytes; 0 where unknown
	ifunc  bool   // addr is the resolver's
	family Family

	layer      string // of a function of a layer: which
	inlined    string // why it would not show all of it
	mayForward string // see Probe.MayForward
}

// symbols is what a symbol table says about allocation.
type symbols struct {
	found     []symbol
	defined   map[string]uint64 // marks of families and allocation functions, where they are
	count     int               // function symbols of any name that are defined
	locals    []symbol          // local ones with the name of an allocation function; see addLocals
	aliases   map[string]uint64
	asked     asked
	users     []symbol          // of what is asked for
	variables map[string]uint64 // that hold pools, where they are
	source    string            // what named the functions; see Object.Source
	static    bool              // the program is static: nobody else's functions are called
	listed    bool              // the table names all functions of the file
	sounds    bool              // some function's name, also a local one, sounds like an allocation
	others    []symbol          // that may allocate, by their names; see Object.Others
}

// has says whether a way to get a block and one to give it back are defined,
// under a prefix: malloc and free, or, of a bundled jemalloc, its own. Linkers
// leave out what is not called: Rust's programs release by sdallocx alone, and static ones
// that never free have no free.
func (s *symbols) has(prefix string) bool {
	any := func(names ...string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return s.defined[prefix+name] != 0 })
	}
	if prefix == "" {
		return any("malloc") && (s.static || any("free"))
	}
	return any("malloc", "mallocx") && any("free", "dallocx", "sdallocx")
}

// wanted are the names that readSymbols records in defined.
var wanted = indexWanted()

func indexWanted() map[string]bool {
	names := map[string]bool{libcMark: true, rustOwn: true, rustDefault: true}
	for _, mark := range familyMarks {
		names[mark.symbol] = true
	}
	for name := range functionsByName {
		names[name] = true
	}
	return names
}

func (im *image) newSymbols() symbols {
	return symbols{defined: map[string]uint64{}, aliases: map[string]uint64{}, variables: map[string]uint64{}, asked: im.asked}
}

// maxKnownName is longer than the name of any function of the table.
const maxKnownName = 64

const symbolSize = 24 // Elf64_Sym

// readSymbols reads a symbol table section of the given type. A file without
// one gives the zero symbols.
func (im *image) readSymbols(t elf.SectionType) (symbols, error) {
	out := im.newSymbols()
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
	out.addLocals()
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

// allocates is in the names of functions that allocate, in whatever case they begin.
var allocates = []byte("lloc")

// add records a symbol if it is the definition of a function of interest. A
// local symbol counts only if it was made local by its visibility, or has a
// prefix: a file's own static function named free is nobody's allocator.
func (s *symbols) add(raw rawSymbol, names []byte) {
	kind := elf.ST_TYPE(raw.info)
	if raw.section == elf.SHN_UNDEF || raw.value == 0 {
		return
	}
	if !isFunction(kind) {
		s.addVariable(raw, names)
		return
	}
	s.count++
	if uint64(raw.name) >= uint64(len(names)) {
		return
	}
	name := names[raw.name:min(len(names), int(raw.name)+max(maxKnownName, s.asked.longest+1))]
	end := bytes.IndexByte(name, 0)
	if end < 0 {
		s.sounds = s.sounds || bytes.Contains(name, allocates)
		return
	}
	s.sounds = s.sounds || bytes.Contains(name[:end], allocates)
	hidden := elf.ST_VISIBILITY(raw.other) != elf.STV_DEFAULT
	found := symbol{addr: raw.value, size: raw.size, ifunc: kind == elf.STT_GNU_IFUNC}
	s.addUser(name[:end], found)
	s.addOther(name[:end], raw)
	s.define(name[:end], found, elf.ST_BIND(raw.info) == elf.STB_LOCAL && !hidden)
}

// define records a function if its name is of interest. own says that it is
// its file's own.
func (s *symbols) define(name []byte, found symbol, own bool) {
	name = rustName(name)
	if public, ok := bytes.CutPrefix(name, libcAlias); ok {
		s.aliases[string(public)] = found.addr
	}
	if !wanted[string(name)] {
		return
	}
	fn, function := functionsByName[string(name)]
	found.function = fn
	if own && !prefixed(string(name)) {
		if function {
			s.locals = append(s.locals, found)
		}
		return
	}
	s.defined[string(name)] = found.addr
	if function {
		s.found = append(s.found, found)
	}
}

// libcAlias is what glibc's own names for its public functions begin with.
var libcAlias = []byte("__libc_")

// addLocals adds local symbols as the allocator's if the C library has another
// name for the same code: glibc's static-pie programs have malloc as a local
// symbol, at the address of __libc_malloc.
func (s *symbols) addLocals() {
	for _, local := range s.locals {
		if at, ok := s.aliases[local.name]; ok && at == local.addr {
			s.defined[local.name] = local.addr
			s.found = append(s.found, local)
		}
	}
}

// allocator reads the symbols of the allocators in the file: those that it
// exports, and those of its own, prefixed or not, that only its full symbol
// table names, which may be elsewhere. A library that exports one is content
// with it.
func (im *image) allocator(id identity, at locator) (symbols, error) {
	dynamic, err := im.readSymbols(elf.SHT_DYNSYM)
	if err != nil {
		return dynamic, err
	}
	dynamic.static = id.static
	if dynamic.complete() && !id.executable && !im.asked.any() {
		return dynamic.only(prefixes[:]...).from("exported symbols"), nil
	}
	full, err := im.fullSymbols(at)
	if errors.Is(err, errTooLarge) && dynamic.complete() {
		err = nil
	}
	if err != nil {
		return full, err
	}
	return dynamic.with(full).only(prefixes[:]...), nil
}

// fullSymbols reads the first of these that there is: the symbol table, that
// of a separate debug file, .gnu_debugdata, DWARF. Trouble in what lies outside
// of the file is none of the file's.
func (im *image) fullSymbols(at locator) (symbols, error) {
	if im.section(elf.SHT_SYMTAB) != nil {
		full, err := im.readSymbols(elf.SHT_SYMTAB)
		full.listed = true
		return full.from("symbol table"), err
	}
	debug, f := im.separate(at)
	if debug != nil {
		defer f.Close()
		if full, err := debug.readSymbols(elf.SHT_SYMTAB); err == nil && full.count > 0 {
			full.listed = true
			return full.from("debug file " + f.Name()), nil
		}
	}
	if mini, err := im.mini(); err == nil && mini != nil {
		if full, err := mini.readSymbols(elf.SHT_SYMTAB); err == nil && full.count > 0 {
			return full.from(".gnu_debugdata"), nil
		}
	}
	for _, described := range []*image{im, debug} {
		if described != nil && described.hasDWARF() {
			full, err := described.dwarfSymbols()
			return full.from("DWARF"), err
		}
	}
	return im.newSymbols().from("exported symbols"), nil
}

func (s symbols) from(source string) symbols {
	s.source = source
	return s
}

// complete says whether an allocator is defined, prefixed or not.
func (s *symbols) complete() bool {
	return slices.ContainsFunc(prefixes[:], s.has)
}

// noAllocator says whether a program is known to have no function that allocates: all of its symbols are there and
// it is built on a C library, of whose allocator the linker took nothing. Programs that are built on none may
// allocate by functions of any name.
func (s *symbols) noAllocator() bool {
	return s.static && s.listed && s.defined[libcMark] != 0 && !s.sounds
}

// with adds the symbols of another table of the same file.
func (s symbols) with(more symbols) symbols {
	s.found = append(s.found, more.found...)
	s.users = append(s.users, more.users...)
	s.others = append(s.others, more.others...)
	s.count += more.count
	s.sounds, s.listed = s.sounds || more.sounds, s.listed || more.listed
	maps.Copy(s.defined, more.defined)
	maps.Copy(s.variables, more.variables)
	s.source = more.source
	return s
}

// only drops the functions of prefixes that are not given or under which no
// complete allocator is defined.
func (s symbols) only(given ...string) symbols {
	var kept []symbol
	for _, fn := range s.found {
		if (s.has(fn.prefix) || fn.group == groupRust) && slices.Contains(given, fn.prefix) {
			kept = append(kept, fn)
		}
	}
	s.found = kept
	s.withoutRust()
	return s
}
