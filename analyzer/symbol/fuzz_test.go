package symbol

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/memtrace/memtrace/testdata/costtest"
)

// FuzzOpen reads damaged ELF files: no panic, no endless loop. Panics are
// caught by guard, so the parts are called without it.
func FuzzOpen(f *testing.F) {
	source := filepath.Join(f.TempDir(), "small.c")
	code := "static inline int sq(int x) { return x * x; }\nint f(int x) { return sq(x) + 1; }\nint g(int x) { return f(sq(x)) * f(2); }\n"
	if err := os.WriteFile(source, []byte(code), 0o644); err != nil {
		f.Fatal(err)
	}
	for _, flags := range [][]string{{"-gdwarf-5"}, {"-gdwarf-4"}, {"-g", "-gz"}, {"-g0"}} {
		out := filepath.Join(f.TempDir(), "small.so")
		tool(f, "gcc", append([]string{"-O2", "-shared", "-fPIC", "-nostdlib", "-o", out, source}, flags...)...)
		data, err := os.ReadFile(out)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	addUnusual(f, source)
	f.Fuzz(func(t *testing.T, data []byte) {
		defer costtest.Bound(t)()
		img, err := openImage(&mappedFile{path: "fuzz", data: data, owned: true, refs: 1})
		if err != nil {
			return
		}
		defer img.close()
		img.debugLink()
		if mini, _ := openMini(img); mini != nil {
			var t symtab
			t.addTables(mini, img.executable)
			mini.close()
		}
		var syms symtab
		syms.addSections(img)
		syms.addTables(img, img.executable)
		syms.finish()
		// A file may well be its own supplement.
		d := dwarfReader{source: img, alt: nil}
		if _, named := img.alt(); named {
			d.alt = img
		}
		// Damage shows as an error; only the budget bounds the time.
		if img.unpackedBytes > unpackLimit(len(data)) {
			t.Errorf("%d bytes decompressed of %d", img.unpackedBytes, len(data))
		}
		_ = d.open()
		for _, p := range img.elf.Progs {
			img.virtualAddress(p.Off)
			for _, addr := range []uint64{p.Vaddr, p.Vaddr + 1, p.Vaddr + 0x10, p.Vaddr + p.Memsz/2} {
				syms.lookup(addr)
				if d.data != nil {
					_, _ = d.data.Lookup(addr)
				}
			}
		}
	})
}

// addUnusual adds files whose DWARF refers to others, and one with
// .gnu_debugdata.
func addUnusual(f *testing.F, source string) {
	f.Helper()
	dir := f.TempDir()
	one, two, split := filepath.Join(dir, "one.so"), filepath.Join(dir, "two.so"), filepath.Join(dir, "split.so")
	flags := []string{"-O2", "-shared", "-fPIC", "-nostdlib", "-g", source, "-o"}
	tool(f, "gcc", append(flags, one)...)
	copyFile(f, one, two)
	tool(f, "dwz", "-m", filepath.Join(dir, "common"), one, two)
	tool(f, "gcc", append(flags, split, "-gsplit-dwarf")...)
	tool(f, "xz", "-k", one)
	tool(f, "objcopy", "--add-section", ".gnu_debugdata="+one+".xz", two)
	for _, name := range []string{one, two, split, filepath.Join(dir, "common")} {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
}
