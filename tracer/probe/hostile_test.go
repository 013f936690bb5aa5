package probe

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
)

// section is one of a file that a test makes.
type section struct {
	name string
	kind elf.SectionType
	data []byte
}

// elfWith makes an ELF file for amd64 of the given sections.
func elfWith(sections ...section) []byte {
	names, data := []byte{0}, []byte{}
	table := []elf.Section64{{}}
	base := uint64(64 + 64*(len(sections)+2))
	for _, s := range sections {
		table = append(table, elf.Section64{Name: uint32(len(names)), Type: uint32(s.kind), Off: base + uint64(len(data)), Size: uint64(len(s.data))})
		names, data = append(append(names, s.name...), 0), append(data, s.data...)
	}
	table = append(table, elf.Section64{Type: uint32(elf.SHT_STRTAB), Off: base + uint64(len(data)), Size: uint64(len(names))})
	head := elf.Header64{
		Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: 1, Ehsize: 64, Phentsize: 56,
		Shoff: 64, Shentsize: 64, Shnum: uint16(len(table)), Shstrndx: uint16(len(table) - 1),
	}
	copy(head.Ident[:], "\x7fELF\x02\x01\x01")
	var b bytes.Buffer
	for _, part := range []any{head, table, data, names} {
		_ = binary.Write(&b, binary.LittleEndian, part) // into memory
	}
	return b.Bytes()
}

// unit4 is a unit of DWARF 4 with the given entries, whose abbreviations lie at an offset.
func unit4(abbrev uint32, entries []byte) []byte {
	head := binary.LittleEndian.AppendUint32(nil, uint32(7+len(entries)))
	head = append(binary.LittleEndian.AppendUint32(append(head, 4, 0), abbrev), 8)
	return append(head, entries...)
}

// TestHostileDWARF: what debug/dwarf would take without end is not given to it, and nobody waits for an answer. None
// of the files has a megabyte.
func TestHostileDWARF(t *testing.T) {
	const unit, function = "\x01\x11\x01\x00\x00", "\x02\x2e\x00"
	many := func(what string, n int) string { return strings.Repeat(what, n) }
	deep := many("\x01\x11\x01\x00\x00", 200000) // abbreviations without end
	var units []byte
	for i := range 20000 {
		units = append(units, unit4(uint32(i*5), []byte{1, 0})...)
	}
	for what, s := range map[string][3]string{
		"attributes that take no byte": {unit + function + many("\x02\x19", 100000) + "\x00\x00\x00", string(unit4(0, []byte("\x01"+many("\x02", 100000)+"\x00")))},
		"some of those":                {unit + function + many("\x02\x19", 250) + "\x00\x00\x00", string(unit4(0, []byte("\x01"+many("\x02", 900000)+"\x00")))},
		"abbreviations of each unit":   {deep, string(units)},
		"one string":                   {unit + function + "\x03\x0e\x00\x00\x00", string(unit4(0, []byte("\x01"+many("\x02\x00\x00\x00\x00", 100000)+"\x00"))), many("a", 500000) + "\x00"},
		"a sibling before":             {unit + "\x02\x34\x01\x01\x13\x00\x00\x00", string(unit4(0, []byte("\x01"+many("\x02\x0c\x00\x00\x00", 1000)+"\x00")))},
	} {
		file := elfWith(section{".debug_abbrev", elf.SHT_PROGBITS, []byte(s[0])}, section{".debug_info", elf.SHT_PROGBITS, []byte(s[1])}, section{".debug_str", elf.SHT_PROGBITS, []byte(s[2])})
		im, err := openImage(bytes.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		n := taken(func() { _, err = im.dwarfSymbols() })
		if n > 2<<30 || (err == nil || !errors.Is(err, errTooLarge)) != (what == "a sibling before") {
			t.Errorf("%s: %d MiB taken in turn, %v", what, n>>20, err)
		}
	}
}

// TestOverlappingTables: what many headers say of one part of a file is not read as often.
func TestOverlappingTables(t *testing.T) {
	im := &image{r: zeros{}, order: binary.LittleEndian}
	s := &elf.Section{SectionHeader: elf.SectionHeader{Type: elf.SHT_RELA, FileSize: maxTable}}
	read := 0
	for range 100 {
		if _, err := im.table(s, maxTable); err == nil {
			read++
		} else if !errors.Is(err, errTooLarge) {
			t.Fatal(err)
		}
	}
	if read != maxTables/maxTable {
		t.Errorf("a table was read %d times", read)
	}
}

type zeros struct{}

func (zeros) ReadAt(p []byte, _ int64) (int, error) { clear(p); return len(p), nil }

var _ io.ReaderAt = zeros{}

// taken is how many bytes f takes, those that it gives back included.
func taken(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
