package dwarf

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/testdata/costtest"
)

// The examples of DWARF 5, figures 22 and 23 (section 7.6).
func TestLEB128(t *testing.T) {
	for want, bytes := range map[uint64][]byte{2: {2}, 127: {127}, 128: {0x80, 1}, 129: {0x81, 1}, 12857: {57 + 0x80, 100}} {
		if c := at(bytes, 0); c.uleb() != want || c.bad {
			t.Errorf("uleb %v: want %d", bytes, want)
		}
	}
	for want, bytes := range map[int64][]byte{2: {2}, -2: {0x7e}, 127: {127 + 0x80, 0}, -127: {1 + 0x80, 0x7f}, 128: {0x80, 1}, -128: {0x80, 0x7f}, -129: {0x7f + 0x80, 0x7e}} {
		if c := at(bytes, 0); c.sleb() != want || c.bad {
			t.Errorf("sleb %v: want %d", bytes, want)
		}
	}
	if c := at([]byte{0x80}, 0); c.uleb() != 0 || !c.bad {
		t.Error("a number that is cut off must fail")
	}
}

// build compiles C to a shared object and returns its sections and symbols.
func build(t testing.TB, code string, flags ...string) (Sections, map[string]uint64) {
	t.Helper()
	dir := t.TempDir()
	source, out := filepath.Join(dir, "source.c"), filepath.Join(dir, "out.so")
	if err := os.WriteFile(source, []byte(code), 0o644); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"-O2", "-shared", "-fPIC", "-nostdlib", "-o", out, source}, flags...)
	if text, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("gcc is needed to build test programs: %v\n%s", err, text)
	}
	f, err := elf.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	section := func(name string) []byte {
		if s := f.Section(name); s != nil {
			data, err := s.Data()
			if err != nil {
				t.Fatal(err)
			}
			return data
		}
		return nil
	}
	symbols := map[string]uint64{}
	list, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		symbols[s.Name] = s.Value
	}
	return Sections{
		Info: section(".debug_info"), Abbrev: section(".debug_abbrev"), Aranges: section(".debug_aranges"),
		Line: section(".debug_line"), LineStr: section(".debug_line_str"), Str: section(".debug_str"),
		Ranges: section(".debug_ranges"), RngLists: section(".debug_rnglists"),
	}, symbols
}

const code = `static inline int sq(int x) {
  return x * x;
}
int f(int x) { return sq(x) + 1; }
int g(int x) {
  __attribute__((noinline)) int inner(int y) { return sq(y) + x; }
  return inner(x) * inner(2);
}
`

// TestNestedFunction finds a function whose entry lies inside another's, which
// the quick pass over a unit leaps over.
func TestNestedFunction(t *testing.T) {
	for _, version := range []string{"-gdwarf-4", "-gdwarf-5"} {
		s, symbols := build(t, code, version)
		var inner uint64
		for name, value := range symbols {
			if strings.HasPrefix(name, "inner") {
				inner = value
			}
		}
		found, err := New(s, 0).Lookup(inner)
		if err != nil || len(found) == 0 || found[len(found)-1].Name != "inner" {
			t.Errorf("%s: got %+v, %v; want inner", version, found, err)
		}
	}
}

// TestAranges finds the unit by .debug_aranges where its own entry says
// nothing: here its low_pc and ranges are renamed to attributes nobody knows.
func TestAranges(t *testing.T) {
	s, symbols := build(t, code, "-gdwarf-4")
	before, err := New(s, 0).Lookup(symbols["f"])
	if err != nil || len(before) == 0 || before[len(before)-1].Name != "f" {
		t.Fatalf("got %+v, %v; want f", before, err)
	}
	s.Abbrev = hideRootRanges(t, s.Abbrev)
	d := New(s, 0)
	after, err := d.Lookup(symbols["f"])
	if err != nil || len(after) != len(before) || after[0] != before[0] {
		t.Errorf("by .debug_aranges: %+v, %v; want %+v", after, err, before)
	}
	if len(d.index.spans) == 0 {
		t.Error("the index is empty: .debug_aranges was not read")
	}
	s.Aranges = nil
	if found, err := New(s, 0).Lookup(symbols["f"]); err != nil || len(found) != 0 {
		t.Errorf("with neither: %+v, %v; want nothing, or the test does not hide the ranges", found, err)
	}
}

// hideRootRanges renames DW_AT_low_pc, DW_AT_high_pc and DW_AT_ranges of the
// first abbreviation, the unit's, to DW_AT_bit_offset (0x0c).
func hideRootRanges(t *testing.T, abbrevs []byte) []byte {
	t.Helper()
	changed := append([]byte(nil), abbrevs...)
	c := at(changed, 0)
	c.uleb()
	c.uleb()
	c.u8()
	for hidden := 0; ; {
		start := c.pos
		attr, form := c.uleb(), c.uleb()
		if c.bad || attr == 0 && form == 0 {
			if hidden == 0 {
				t.Fatal("the unit's abbreviation has no ranges to hide")
			}
			return changed
		}
		if attr == 0x11 || attr == 0x12 || attr == 0x55 {
			changed[start] = 0x0c
			hidden++
		}
	}
}

// TestLimit keeps the cache within its bound and the answers the same.
func TestLimit(t *testing.T) {
	s, symbols := build(t, code, "-gdwarf-5")
	d := New(s, 1)
	for range 3 {
		for _, name := range []string{"f", "g"} {
			found, err := d.Lookup(symbols[name])
			if err != nil || len(found) == 0 || found[len(found)-1].Name != name {
				t.Errorf("got %+v, %v; want %s", found, err, name)
			}
		}
	}
	if len(d.cache) > 1 {
		t.Errorf("%d units are cached, want no more than the current one", len(d.cache))
	}
	held := 0
	for _, l := range d.cache {
		held += l.cost()
	}
	if d.held != held {
		t.Errorf("%d bytes are counted, want %d", d.held, held)
	}
}

// TestHostile gives lists that refer to themselves or never end: the lookup
// must end, and say that something is wrong.
func TestHostile(t *testing.T) {
	s, symbols := build(t, code, "-gdwarf-5")
	f := symbols["f"]
	for name, damage := range map[string]func(*Sections){
		"line table without end": func(s *Sections) { s.Line = s.Line[:len(s.Line)-8] },
		"unit beyond the section": func(s *Sections) {
			s.Info = append([]byte(nil), s.Info...)
			binary.LittleEndian.PutUint32(s.Info, 0xfffffff)
		},
		"no abbreviations":     func(s *Sections) { s.Abbrev = nil },
		"abbreviations cut":    func(s *Sections) { s.Abbrev = s.Abbrev[:len(s.Abbrev)/2] },
		"range lists cut":      func(s *Sections) { s.RngLists = nil; s.Line = nil },
		"entries cut":          func(s *Sections) { s.Info = s.Info[:len(s.Info)-20] },
		"version of no header": func(s *Sections) { s.Line = append(s.Line[:4:4], s.Line[:20]...) },
	} {
		t.Run(name, func(t *testing.T) {
			damaged := s
			damage(&damaged)
			if _, err := New(damaged, 0).Lookup(f); err == nil {
				t.Error("no error")
			}
		})
	}
}

// TestBudget reads one long list of ranges for each of many units: the work
// would be their product.
func TestBudget(t *testing.T) {
	var s Sections
	// Abbreviation 1: DW_TAG_compile_unit without children, DW_AT_ranges as sec_offset.
	s.Abbrev = []byte{1, 0x11, 0, 0x55, 0x17, 0, 0, 0}
	unit := []byte{12, 0, 0, 0, 4, 0, 0, 0, 0, 0, 8, 1, 0, 0, 0, 0}
	for range 5000 {
		s.Info = append(s.Info, unit...)
	}
	for i := range uint64(5000) {
		s.Ranges = binary.LittleEndian.AppendUint64(s.Ranges, 0x1000+i)
		s.Ranges = binary.LittleEndian.AppendUint64(s.Ranges, 0x1001+i)
	}
	s.Ranges = append(s.Ranges, make([]byte, 16)...)
	d := New(s, 0)
	d.budget = 20000
	for range maxStrikes {
		// The first builds the index, with an error; the others are cheap.
		_, err := d.Lookup(0x1000)
		if d.lookups == 1 && !errors.Is(err, errBudget) {
			t.Errorf("got %v, want %v", err, errBudget)
		}
	}
	if n := len(d.index.spans); n == 0 || n > d.budget {
		t.Errorf("%d ranges were read on a budget of %d", n, d.budget)
	}
}

// TestStrikes leaves a file alone whose lookups take too much time and again.
func TestStrikes(t *testing.T) {
	s, symbols := build(t, code, "-gdwarf-5")
	d := New(s, 1)
	d.budget = 3
	for range maxStrikes {
		if _, err := d.Lookup(symbols["f"]); err == nil && d.lookups == 1 {
			t.Error("no error on a budget of 3")
		}
		d.indexed, d.index.spans = false, nil // as a file with more to read
	}
	d.budget = lookupBudget
	if found, err := d.Lookup(symbols["f"]); len(found) != 0 || err != nil {
		t.Errorf("got %+v, %v after %d strikes; want nothing", found, err, d.strikes)
	}
}

// FuzzLookup reads damaged sections.
func FuzzLookup(f *testing.F) {
	for _, version := range []string{"-gdwarf-4", "-gdwarf-5"} {
		s, symbols := build(f, code, version)
		f.Add(s.Info, s.Abbrev, s.Line, s.LineStr, s.Ranges, s.RngLists, s.Aranges, symbols["f"])
	}
	f.Fuzz(func(t *testing.T, info, abbrev, line, lineStr, ranges, rngLists, aranges []byte, addr uint64) {
		defer costtest.Bound(t)()
		d := New(Sections{Info: info, Abbrev: abbrev, Line: line, LineStr: lineStr, Ranges: ranges, RngLists: rngLists, Aranges: aranges}, 0)
		d.budget = 1 << 20
		for _, a := range []uint64{addr, addr + 1} {
			_, _ = d.Lookup(a)
			if d.work.left < -1<<20 || d.Held() > 64<<20 {
				t.Errorf("%d of work beyond the budget, %d bytes held", -d.work.left, d.Held())
			}
		}
	})
}
