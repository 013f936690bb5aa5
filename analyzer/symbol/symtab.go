package symbol

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sort"
)

const (
	symbolSize = 24 // of an Elf64_Sym
	// maxName is the longest symbol name read.
	maxName = 1 << 16
	// maxBack is how many symbols are looked at below the nearest one for a
	// larger one that reaches over the address.
	maxBack = 64
)

// symtab is the functions of a module by address. Names stay in the mapped
// string tables.
type symtab struct {
	symbols  []symbolEntry // ascending by value
	strings  [][]byte
	sections []elf.SectionHeader // of code
	objects  bool                // holds data objects instead of functions
}

type symbolEntry struct {
	value uint64
	size  uint32
	name  uint32 // offset in strings[table]
	table uint8
	kind  elf.SymType
	bind  elf.SymBind
}

func (s symbolEntry) covers(addr uint64) bool {
	return addr >= s.value && addr-s.value < uint64(s.size)
}

// addTables adds the function symbols of .symtab and .dynsym of img, code
// being what is executable: the module's own image tells, since debug files
// may have lost their program headers.
func (t *symtab) addTables(img *image, code func(uint64) bool) (err error) {
	// Tables of an honest file don't overlap.
	left := min(maxSymtabs, len(img.file.data))
	for _, s := range img.elf.Sections {
		if s.Type != elf.SHT_SYMTAB && s.Type != elf.SHT_DYNSYM || int64(s.Link) >= int64(len(img.elf.Sections)) {
			continue
		}
		names := img.elf.Sections[s.Link]
		if names.Type != elf.SHT_STRTAB || len(t.strings) > 8 {
			continue
		}
		data := img.raw(s.Offset, s.FileSize)
		if len(data) > left {
			err = fmt.Errorf("%s: %w", img.file.path, errSymtabs)
			data = data[:left/symbolSize*symbolSize]
		}
		left -= len(data)
		t.strings = append(t.strings, img.raw(names.Offset, names.FileSize))
		img.file.inPieces(data, func(piece []byte) { t.add(piece, code) })
	}
	return err
}

// errSymtabs: the symbol tables are larger than those of any honest file.
var errSymtabs = errors.New("its symbol tables come to more than memtrace reads: some functions will lack names")

// addSections notes where sections of code begin and end, which symbols
// without a size do not reach over.
func (t *symtab) addSections(img *image) {
	for _, s := range img.elf.Sections {
		if s.Flags&elf.SHF_ALLOC != 0 && s.Flags&elf.SHF_EXECINSTR != 0 {
			t.sections = append(t.sections, s.SectionHeader)
		}
	}
}

// sameSection tells whether one section of code has both addresses.
func (t *symtab) sameSection(a, b uint64) bool {
	for _, s := range t.sections {
		if a >= s.Addr && a-s.Addr < s.Size {
			return b >= s.Addr && b-s.Addr < s.Size
		}
	}
	return false
}

// add takes the functions out of one symbol table, with names in the latest
// string table.
func (t *symtab) add(data []byte, code func(uint64) bool) {
	table := uint8(len(t.strings) - 1)
	for ; len(data) >= symbolSize; data = data[symbolSize:] {
		kind, bind := elf.ST_TYPE(data[4]), elf.ST_BIND(data[4])
		index := elf.SectionIndex(binary.LittleEndian.Uint16(data[6:]))
		if index == elf.SHN_UNDEF || index == elf.SHN_ABS {
			continue
		}
		if !t.wants(kind) {
			continue
		}
		e := symbolEntry{
			name:  binary.LittleEndian.Uint32(data),
			value: binary.LittleEndian.Uint64(data[8:]),
			size:  uint32(min(binary.LittleEndian.Uint64(data[16:]), 1<<32-1)),
			table: table, kind: kind, bind: bind,
		}
		// Untyped symbols are labels of assembly; arm64's $x and $d mark
		// code and data and name nothing.
		if !code(e.value) || kind == elf.STT_NOTYPE && bytes.HasPrefix(t.text(e), []byte("$")) {
			continue
		}
		t.symbols = append(t.symbols, e)
	}
}

// wants tells symbols that the table is for.
func (t *symtab) wants(kind elf.SymType) bool {
	if t.objects {
		return kind == elf.STT_OBJECT
	}
	return kind == elf.STT_FUNC || kind == elf.STT_GNU_IFUNC || kind == elf.STT_NOTYPE
}

// finish sorts what was added.
func (t *symtab) finish() {
	slices.SortFunc(t.symbols, func(a, b symbolEntry) int { return cmp.Compare(a.value, b.value) })
	t.symbols = slices.Clip(t.symbols)
}

// lookup returns the name of the function that covers addr and where it starts.
func (t *symtab) lookup(addr uint64) (name string, start uint64, ok bool) {
	i := sort.Search(len(t.symbols), func(i int) bool { return t.symbols[i].value > addr })
	if i == 0 {
		return "", 0, false
	}
	if e, ok := t.covering(i, addr); ok {
		return trimVersion(t.name(e)), e.value, true
	}
	// Assembly without sizes: the label before it, up to the next symbol. The
	// PLT, which has no symbols, must not go by the last label of .init.
	if !t.sameSection(t.symbols[i-1].value, addr) {
		return "", 0, false
	}
	if e, ok := t.best(t.symbols[i-1].value, i, func(e symbolEntry) bool { return e.size == 0 }); ok {
		return trimVersion(t.name(e)), e.value, true
	}
	return "", 0, false
}

// covering finds the innermost symbol below index i whose size reaches over
// addr, and the best of its aliases.
func (t *symtab) covering(i int, addr uint64) (symbolEntry, bool) {
	for back := i - 1; back >= max(0, i-maxBack); back-- {
		if t.symbols[back].covers(addr) {
			return t.best(t.symbols[back].value, back+1, func(e symbolEntry) bool { return e.covers(addr) })
		}
	}
	return symbolEntry{}, false
}

// best picks, of the symbols with the given value below index end, the
// preferred one that is fit.
func (t *symtab) best(value uint64, end int, fit func(symbolEntry) bool) (best symbolEntry, ok bool) {
	for i := end - 1; i >= max(0, end-maxBack) && t.symbols[i].value == value; i-- {
		if e := t.symbols[i]; fit(e) && (!ok || t.prefer(e, best)) {
			best, ok = e, true
		}
	}
	return best, ok
}

// prefer tells whether a is the more telling alias: functions before labels,
// exported before local names, malloc before __libc_malloc, short before long.
func (t *symtab) prefer(a, b symbolEntry) bool {
	if x, y := a.kind == elf.STT_NOTYPE, b.kind == elf.STT_NOTYPE; x != y {
		return y
	}
	if x, y := a.bind == elf.STB_LOCAL, b.bind == elf.STB_LOCAL; x != y {
		return y
	}
	nameA, nameB := unversioned(t.text(a)), unversioned(t.text(b))
	return cmp.Or(
		cmp.Compare(underscores(nameA), underscores(nameB)),
		cmp.Compare(len(nameA), len(nameB)),
		bytes.Compare(nameA, nameB)) < 0
}

func underscores(name []byte) int {
	return len(name) - len(bytes.TrimLeft(name, "_"))
}

// unversioned is trimVersion.
func unversioned(name []byte) []byte {
	if i := bytes.IndexByte(name, '@'); i > 0 {
		return name[:i]
	}
	return name
}

// name copies the name of e out of the mapping.
func (t *symtab) name(e symbolEntry) string { return string(t.text(e)) }

// text is the name of e where it lies.
func (t *symtab) text(e symbolEntry) []byte {
	table := t.strings[e.table]
	if uint64(e.name) >= uint64(len(table)) {
		return nil
	}
	text := table[e.name:min(len(table), int(e.name)+maxName)]
	if end := bytes.IndexByte(text, 0); end >= 0 {
		text = text[:end]
	}
	return text
}
