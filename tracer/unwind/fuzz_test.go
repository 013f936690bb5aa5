package unwind

import (
	"bytes"
	"debug/elf"
	"os"
	"testing"

	"github.com/memtrace/memtrace/testdata/costtest"
	"github.com/memtrace/memtrace/tracer/debugfile/elftest"
)

// FuzzParse runs arbitrary bytes as .eh_frame and .debug_frame, and looks up
// what comes of it.
func FuzzParse(f *testing.F) {
	f.Add([]byte{}, false)
	for _, path := range binaries(f)[2:3] {
		e, err := elf.Open(path)
		if err != nil {
			f.Fatal(err)
		}
		data, err := e.Section(".eh_frame").Data()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data[:2000], false)
		f.Add(data[:2000], true)
		if err := e.Close(); err != nil {
			f.Fatal(err)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, debug bool) {
		defer costtest.Bound(t)()
		m := machines[elf.EM_X86_64]
		var all *rows
		var list []row
		took := elftest.Allocated(func() {
			all = newRows(m, []Range{{0, 1 << 20}})
			all.add(&section{data: data, address: 1 << 19, debug: debug, machine: m})
			list = all.merged()
		})
		if took > uint64(1<<20+200*len(data)) {
			t.Fatalf("%d bytes of memory for %d", took, len(data))
		}
		if len(list) > len(data)+2 {
			t.Fatalf("%d rows from %d bytes", len(list), len(data))
		}
		for i := 1; i < len(list); i++ {
			if list[i].at <= list[i-1].at {
				t.Fatalf("row %d at %#x after %#x", i, list[i].at, list[i-1].at)
			}
		}
		if len(list) > 0 {
			checkTable(t, list, all.rules)
		}
	})
}

// checkTable compares look-ups in an encoded table with the rows themselves.
func checkTable(t *testing.T, list []row, rules []Rule) {
	table := newTable(list, rules)
	index := map[Rule]uint32{}
	for i, r := range rules {
		index[r] = uint32(i)
	}
	words := table.Encode(1, func(r Rule) uint32 { return index[r] })
	for i, r := range list {
		end := table.Text.End
		if i+1 < len(list) {
			end = list[i+1].at
		}
		for _, at := range []uint64{r.at, end - 1} {
			if got := Lookup(words, at-table.Text.Start); got != r.rule {
				t.Fatalf("rule %d at %#x, want %d", got, at, r.rule)
			}
		}
	}
}

// FuzzRead reads arbitrary bytes as an ELF file.
func FuzzRead(f *testing.F) {
	data, err := os.ReadFile(binaries(f)[2])
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		defer costtest.Bound(t)()
		r := bytes.NewReader(data)
		var file *File
		var err error
		if took := elftest.Allocated(func() { file, err = Read(r) }); took > uint64(8<<20+200*len(data)) {
			t.Fatalf("%d bytes of memory for %d", took, len(data))
		}
		if err != nil {
			return
		}
		for _, s := range file.Segments {
			if s.Table != nil && len(s.Table.Encode(1, func(Rule) uint32 { return 1 })) == 0 {
				t.Fatal("an empty table")
			}
		}
	})
}
