package analyzer

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
)

// dataFile is an ELF file whose one segment is writable, with so many pages in the file and
// so many in memory; none in memory: no ELF file.
func dataFile(inFile, inMemory int) []byte {
	if inMemory == 0 {
		return bytes.Repeat([]byte("data "), 1000)
	}
	var out bytes.Buffer
	write := func(values ...any) {
		for _, v := range values {
			if err := binary.Write(&out, binary.LittleEndian, v); err != nil {
				panic(err) // a value without a fixed size: a mistake in the test
			}
		}
	}
	write([16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		uint16(elf.ET_DYN), uint16(elf.EM_X86_64), uint32(1), uint64(0), uint64(64), uint64(0), uint32(0),
		uint16(64), uint16(56), uint16(1), uint16(64), uint16(0), uint16(0))
	const address, less = 0x10000, 8 // the last page is not full
	write(uint32(elf.PT_LOAD), uint32(elf.PF_R|elf.PF_W), uint64(0), uint64(address), uint64(address),
		uint64(inFile)*pageBytes-less, uint64(inMemory)*pageBytes-less, pageBytes)
	return out.Bytes()
}

// Of memory behind a library's data so much is the library's as its file says, whatever lies
// behind that. Where the file can't be read all of it is taken for the library's.
func TestMemoryBehindData(t *testing.T) {
	for name, c := range map[string]struct {
		file        []byte // nil: it can't be read
		other, anon int    // pages
	}{
		"no .bss":                     {file: dataFile(2, 2), other: 2, anon: 7},
		"a page of .bss":              {file: dataFile(2, 3), other: 3, anon: 6},
		"three, of which two resided": {file: dataFile(2, 5), other: 4, anon: 5},
		"all of it":                   {file: dataFile(2, 12), other: 9},
		"no ELF file":                 {file: dataFile(0, 0), other: 2, anon: 7},
		"not to be read":              {other: 9},
		"cut off":                     {file: dataFile(2, 3)[:100], other: 9},
	} {
		t.Run(name, func(t *testing.T) {
			p, dir := fakeProcess(t, []fakeVMA{
				{30, "PP", "r-xp", "/lib/own.so", 0},
				{40, "PP", "rw-p", "/lib/own.so", 2},
				{42, "PP-PPPPP--", "rw-p", "", -1},
				{60, "P", "rw-p", "[stack]", -1},
			})
			smaps, err := os.ReadFile(filepath.Join(dir, "smaps"))
			if err != nil {
				t.Fatal(err)
			}
			smaps = []byte(strings.ReplaceAll(string(smaps), "00:00 0    /lib/own.so", "08:01 55    /lib/own.so"))
			if err := os.WriteFile(filepath.Join(dir, "smaps"), smaps, 0o600); err != nil {
				t.Fatal(err)
			}
			if c.file != nil {
				name := filepath.Join(dir, "map_files", fmt.Sprintf("%x-%x", 40*pageBytes, 42*pageBytes))
				if err := os.Mkdir(filepath.Dir(name), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name, c.file, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var r Residency
			got, err := r.Measure(p, nil, 0, yieldBlocks(nil))
			if err != nil {
				t.Fatal(err)
			}
			want := report.RSSBy{File: 2, Other: uint64(c.other), AnonMmap: uint64(c.anon), Stack: 1}
			if pagesOf(got.RSSBy) != want || got.RSSBy.Sum() != got.Usage.RSS {
				t.Errorf("pages of RSS by kind: %+v, want %+v; RSS %d", pagesOf(got.RSSBy), want, got.Usage.RSS/pageBytes)
			}
		})
	}
}
