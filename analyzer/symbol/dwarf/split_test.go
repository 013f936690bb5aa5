package dwarf

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/memtrace/memtrace/testdata/costtest"
)

// split is a program whose DWARF is split, as sections.
type split struct {
	main, dwo Sections
	index     []byte // of the package that dwo is
	f         uint64 // address of function f
}

// buildSplit compiles C to a shared object with a .dwp file beside it.
func buildSplit(t testing.TB, version string) split {
	t.Helper()
	dir := t.TempDir()
	source, out := filepath.Join(dir, "source.c"), filepath.Join(dir, "out.so")
	if err := os.WriteFile(source, []byte(code), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{
		{"gcc", "-O2", "-shared", "-fPIC", "-nostdlib", "-gsplit-dwarf", version, "-o", out, source},
		{"llvm-dwp-19", "-e", out, "-o", out + ".dwp"},
	} {
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Dir = dir
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", command, err, text)
		}
	}
	main, symbols := readSections(t, out)
	dwp, _ := readSections(t, out+".dwp")
	return split{
		f: symbols["f"], index: dwp[".debug_cu_index"],
		main: Sections{
			Info: main[".debug_info"], Abbrev: main[".debug_abbrev"], Line: main[".debug_line"], LineStr: main[".debug_line_str"],
			Str: main[".debug_str"], Addr: main[".debug_addr"], Ranges: main[".debug_ranges"], RngLists: main[".debug_rnglists"],
		},
		dwo: Sections{
			Info: dwp[".debug_info.dwo"], Abbrev: dwp[".debug_abbrev.dwo"], Str: dwp[".debug_str.dwo"],
			StrOffsets: dwp[".debug_str_offsets.dwo"], RngLists: dwp[".debug_rnglists.dwo"],
		},
	}
}

func readSections(t testing.TB, path string) (map[string][]byte, map[string]uint64) {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sections, symbols := map[string][]byte{}, map[string]uint64{}
	for _, s := range f.Sections {
		if s.Type == elf.SHT_NOBITS {
			continue
		}
		if sections[s.Name], err = s.Data(); err != nil {
			t.Fatal(err)
		}
	}
	list, _ := f.Symbols()
	for _, s := range list {
		symbols[s.Name] = s.Value
	}
	return sections, symbols
}

// splitter takes units out of a package.
func (s split) splitter() Splitter {
	return func(_, _ string, id uint64) (Sections, error) {
		p, err := NewPackage(s.dwo, s.index)
		if err != nil {
			return Sections{}, err
		}
		unit, ok := p.Unit(id)
		if !ok {
			return Sections{}, errOtherSplit
		}
		return unit, nil
	}
}

// TestPackage finds functions and those inlined in a package file.
func TestPackage(t *testing.T) {
	for _, version := range []string{"-gdwarf-4", "-gdwarf-5"} {
		s := buildSplit(t, version)
		s.main.Split = s.splitter()
		found, err := New(s.main, 0).Lookup(s.f)
		if err != nil || len(found) == 0 || found[len(found)-1].Name != "f" {
			t.Errorf("%s: got %+v, %v; want f", version, found, err)
		}
		p, err := NewPackage(s.dwo, s.index)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := p.Unit(1); ok {
			t.Errorf("%s: a unit was found by an ID that none has", version)
		}
		if _, err := NewPackage(s.dwo, s.index[:len(s.index)-1]); err == nil {
			t.Errorf("%s: an index cut off was taken", version)
		}
	}
}

// FuzzSplit reads damaged split DWARF.
func FuzzSplit(f *testing.F) {
	for _, version := range []string{"-gdwarf-4", "-gdwarf-5"} {
		s := buildSplit(f, version)
		f.Add(s.main.Info, s.main.Abbrev, s.main.Addr, s.dwo.Info, s.dwo.Abbrev, s.dwo.StrOffsets, s.dwo.RngLists, s.index, s.f)
	}
	f.Fuzz(func(t *testing.T, info, abbrev, addrs, dwoInfo, dwoAbbrev, strOffsets, rngLists, index []byte, addr uint64) {
		defer costtest.Bound(t)()
		dwo := Sections{Info: dwoInfo, Abbrev: dwoAbbrev, StrOffsets: strOffsets, Str: []byte("name\x00"), RngLists: rngLists}
		s := split{dwo: dwo, index: index}
		for _, find := range []Splitter{s.splitter(), func(string, string, uint64) (Sections, error) { return dwo, nil }} {
			d := New(Sections{Info: info, Abbrev: abbrev, Addr: addrs, Str: []byte("name\x00"), Ranges: rngLists, Split: find}, 0)
			_, _ = d.Lookup(addr)
		}
	})
}

// FuzzAlt reads damaged DWARF that refers to another file: here, to itself.
func FuzzAlt(f *testing.F) {
	for _, version := range []string{"-gdwarf-4", "-gdwarf-5"} {
		s, symbols := build(f, code, version)
		// DW_FORM_ref4 made DW_FORM_ref_sup4, DW_FORM_strp made DW_FORM_strp_sup.
		for i := 1; i < len(s.Abbrev); i += 2 {
			switch s.Abbrev[i] {
			case formRef4:
				s.Abbrev[i] = formRefSup4
			case formStrp:
				s.Abbrev[i] = formStrpSup
			}
		}
		f.Add(s.Info, s.Abbrev, s.Ranges, s.RngLists, symbols["f"])
	}
	f.Fuzz(func(t *testing.T, info, abbrev, ranges, rngLists []byte, addr uint64) {
		defer costtest.Bound(t)()
		s := Sections{Info: info, Abbrev: abbrev, Str: []byte("name\x00"), Ranges: ranges, RngLists: rngLists}
		alt := s
		s.Alt = &alt
		_, _ = New(s, 0).Lookup(addr)
	})
}
