package probe

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/tracer/debugfile/elftest"
)

// section is one of a file that a test makes.
func content(name, data string) elftest.Section {
	return elftest.Section{Name: name, Section64: elf.Section64{Type: uint32(elf.SHT_PROGBITS)}, Data: []byte(data)}
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
		file := elftest.File(content(".debug_abbrev", s[0]), content(".debug_info", s[1]), content(".debug_str", s[2]))
		im, err := openImage(bytes.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		n := elftest.Allocated(func() { _, err = im.dwarfSymbols() })
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
