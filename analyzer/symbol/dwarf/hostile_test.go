package dwarf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"
)

const at100 = 0x100 // an address that the units of these tests have

// unit5 is a unit of DWARF 5 whose abbreviation 1 is its own entry's, of at100 on.
func unit5(entries string) []byte {
	root := binary.LittleEndian.AppendUint64([]byte{1}, at100)
	root = binary.LittleEndian.AppendUint64(root, 1<<24)
	body := append(append([]byte{5, 0, 1, 8, 0, 0, 0, 0}, append(root, 0, 0, 0, 0)...), entries...)
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// rootAbbrev describes it: DW_AT_low_pc, DW_AT_high_pc and DW_AT_stmt_list.
const rootAbbrev = "\x01\x11\x01\x11\x01\x12\x07\x10\x17\x00\x00"

// lines5 is a line table with a directory and the given list of files, then a program.
func lines5(files, program string) []byte {
	body := "\x01\x01\x01\xfb\x0e\x0d\x00\x01\x01\x01\x01\x00\x00\x00\x01\x00\x00\x01" + "\x01\x01\x1f\x01\x00\x00\x00\x00" + files
	head := append([]byte{5, 0, 8, 0}, binary.LittleEndian.AppendUint32(nil, uint32(len(body)))...)
	all := append(append(head, body...), program...)
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(all))), all...)
}

func uleb(n uint64) string { return string(binary.AppendUvarint(nil, n)) }

// hostile are sections of some megabytes at most that are made to take time or memory. The figures are those of
// a file that needs hours if only entries are counted.
func hostile() map[string]Sections {
	many := strings.Repeat
	abbrev := func(more string) []byte { return []byte(rootAbbrev + more + "\x00") }
	start := "\x00\x09\x02" + string(binary.LittleEndian.AppendUint64(nil, at100)) + "\x01"
	end := "\x02" + uleb(1<<24) + "\x00\x01\x01"
	nested := "\x02\x1d\x00\x55\x17\x00\x00" + "\x03\x2e\x01\x11\x01\x12\x07\x00\x00"
	function := "\x03" + string(binary.LittleEndian.AppendUint64(nil, at100)) + string(binary.LittleEndian.AppendUint64(nil, 1<<24))
	ranges := []byte("\x00\x00\x00\x00\x05\x00\x08\x00\x00\x00\x00\x00" + many("\x07\x10\x00\x00\x00\x00\x00\x00\x00\x01", 20000) + "\x00")
	return map[string]Sections{
		"attributes that take no byte": {Info: unit5(many("\x02", 1<<20) + "\x00"), Abbrev: abbrev("\x02\x34\x00" + many("\x02\x19", 50000) + "\x00\x00")},
		"constants of abbreviations":   {Info: unit5(many("\x02", 1<<20) + "\x00"), Abbrev: abbrev("\x02\x34\x00" + many("\x02\x21\x00", 50000) + "\x00\x00")},
		"one string of many files":     {Info: unit5("\x00"), Abbrev: abbrev(""), LineStr: bytes.Repeat([]byte("a"), 1<<22), Line: lines5("\x01\x01\x1f"+uleb(1<<18)+many("\x00\x00\x00\x00", 1<<18), start+end)},
		"strings without an end":       {Info: unit5("\x00"), Abbrev: abbrev(""), Line: lines5("\x01\x01\x08\x01x\x00", many("\x00\x02\x03a", 1<<18)+many("b", 1<<22)+"\x00"+end)},
		"opcodes with 255 operands":    {Info: unit5("\x00"), Abbrev: abbrev(""), Line: lines5("\x01\x01\x08\x01x\x00", start+many("\x0a\x00", 1<<20)+end)},
		"numbers without an end":       {Info: unit5(many("\x02"+many("\x80", 1000), 4000) + "\x00"), Abbrev: abbrev("\x02\x34\x00\x02\x0f\x00\x00")},
		"nested functions with ranges": {Info: unit5(function + many("\x02\x0c\x00\x00\x00", 25000)), Abbrev: abbrev(nested), RngLists: ranges},
		"units without end":            {Info: bytes.Repeat([]byte{0, 0, 0, 0}, 1<<20), Abbrev: abbrev("")},
		"rows in falling order":        {Info: unit5("\x00"), Abbrev: abbrev(""), Line: lines5("\x01\x01\x08\x01x\x00", falling())},
		"aranges of nothing":           {Info: []byte{12, 0, 0, 0, 4, 0, 0, 0, 0, 0, 8, 1, 0, 0, 0, 0}, Abbrev: []byte{1, 0x11, 0, 0, 0, 0}, Aranges: make([]byte, 1<<22)},
		"an abbreviation of each unit": {Info: bytes.Repeat(unit5(""), 100000), Abbrev: append(bytes.Repeat([]byte("\x02\x34\x00\x02\x19\x00\x00"), 1<<15), rootAbbrev...)},
	}
}

// falling is a line program whose rows have to be sorted.
func falling() string {
	var b strings.Builder
	for i := range uint64(100000) {
		b.WriteString("\x00\x09\x02" + string(binary.LittleEndian.AppendUint64(nil, 1<<24-i)) + "\x03\x01\x01")
	}
	return b.String() + "\x00\x01\x01"
}

// TestHostileWork: all that a file's lookups cost is counted, and ends: by steps, of which each is some
// bytes, attributes or entries, and in memory.
func TestHostileWork(t *testing.T) {
	const allowed, most = 4 << 20, 512 << 20
	for what, s := range hostile() {
		left, tired := allowed, false
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		d := New(s, 0)
		for i := range uint64(1000) {
			d.Allow(left, true)
			_, err := d.Lookup(at100 + i)
			if tired = errors.Is(err, ErrWork); tired {
				break
			}
			if left -= d.Work(); left < -1<<20 {
				t.Errorf("%s: %d of work in one step more than was allowed", what, -left)
			}
		}
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > most {
			t.Errorf("%s: %d MiB taken in turn", what, n>>20)
		}
		if held := d.Held(); held > 128<<20 {
			t.Errorf("%s: %d MiB held", what, held>>20)
		}
	}
}

// TestWorkIsCounted: what takes long is not free, however few entries it is. The least of work is that of the
// attributes, bytes or ranges that there are.
func TestWorkIsCounted(t *testing.T) {
	const budget = 1 << 22
	files := hostile()
	for what, least := range map[string]int{
		"attributes that take no byte": budget, "constants of abbreviations": budget, "nested functions with ranges": budget,
		"one string of many files": budget, "strings without an end": 1 << 16, "units without end": 1 << 20, "aranges of nothing": 1 << 20,
	} {
		d := New(files[what], 0)
		d.budget = budget
		_, _ = d.Lookup(at100)
		if n := d.Work(); n < least {
			t.Errorf("%s: a work of %d, want at least %d", what, n, least)
		}
	}
}

// TestAllow: a file that has used up its work gets no more answers, and says so; one that has not, all of them.
func TestAllow(t *testing.T) {
	s, symbols := build(t, code, "-gdwarf-5")
	d := New(s, 0)
	d.Allow(math.MaxInt, true)
	want, err := d.Lookup(symbols["f"])
	if err != nil || len(want) == 0 {
		t.Fatalf("%v, %v; want an answer", want, err)
	}
	d = New(s, 0)
	d.Allow(d.Work(), true)
	if found, err := d.Lookup(symbols["f"]); len(found) > 0 || !errors.Is(err, ErrWork) {
		t.Errorf("%v, %v with no work left; want %v", found, err, ErrWork)
	}
}
