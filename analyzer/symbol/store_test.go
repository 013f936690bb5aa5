package symbol

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/memtrace/memtrace/testdata/costtest"
)

// lookUp names addrs of a file with a Resolver of its own, and closes it.
// filesRead tells whether that needed more than what earlier runs left.
func lookUp(t testing.TB, path string, addrs []uint64, o Options) (frames []*Frame, warnings []string, filesRead bool) {
	t.Helper()
	s, r := fileSpace(t, path), NewResolver(o)
	for _, a := range addrs {
		frames = append(frames, r.Frames(s, []uint64{a}, false)...)
	}
	for _, m := range r.modules {
		filesRead = filesRead || m.dwarf.opened || m.syms.symbols != nil
	}
	r.Close()
	return frames, r.Warnings(), filesRead
}

// stored returns the only file of answers in dir.
func stored(t testing.TB, dir string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(found) != 1 || !strings.HasSuffix(found[0], answersSuffix) {
		t.Fatalf("the cache holds %q, want one file of answers", found)
	}
	return found[0]
}

// TestSecondRun must say the same without a look into the binary, and add to
// what is there.
func TestSecondRun(t *testing.T) {
	program := compile(t, "inlines.cc", "-O2", "-Wl,--build-id", "-gdwarf-5")
	addrs := sampleCode(t, program)
	for _, names := range []Names{FullNames, ShortNames} {
		cache := filepath.Join(t.TempDir(), "a", "b")
		o := Options{Cache: cache, Names: names}
		want, _, _ := lookUp(t, program, addrs, Options{Names: names})
		half, _, _ := lookUp(t, program, addrs[:len(addrs)/2], o)
		first, _, read := lookUp(t, program, addrs, o)
		if !read {
			t.Error("the second half was known without reading the program")
		}
		second, warnings, read := lookUp(t, program, addrs, o)
		if read || len(warnings) > 0 {
			t.Errorf("third run: files were read %v, warnings %q", read, warnings)
		}
		if !reflect.DeepEqual(half, want[:len(half)]) || !reflect.DeepEqual(first, want) || !reflect.DeepEqual(second, want) {
			t.Error("answers differ with the cache")
		}
		for path, mode := range map[string]os.FileMode{cache: 0o700 | os.ModeDir, stored(t, cache): 0o600} {
			if st, err := os.Stat(path); err != nil || st.Mode() != mode {
				t.Errorf("%s: %v, %v; want %v", path, st.Mode(), err, mode)
			}
		}
	}
}

// TestDebugFileArrives must not be hidden by what was known before it.
func TestDebugFileArrives(t *testing.T) {
	program := compile(t, "inlines.c", "-O2", "-g", "-Wl,--build-id")
	addrs := []uint64{symbolValue(t, program, "plain")}
	debug := filepath.Join(t.TempDir(), "program.debug")
	tool(t, "objcopy", "--only-keep-debug", program, debug)
	tool(t, "objcopy", "--strip-debug", "--add-gnu-debuglink="+debug, program)
	// Small files without DWARF are not worth a file of answers.
	file, err := os.OpenFile(program, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.Write(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	file.Close()
	o := Options{Cache: filepath.Join(t.TempDir(), "cache")}
	before, _, _ := lookUp(t, program, addrs, o)
	stored(t, o.Cache)
	copyFile(t, debug, filepath.Join(filepath.Dir(program), "program.debug"))
	after, _, _ := lookUp(t, program, addrs, o)
	if before[0].Line != 0 || after[0].Line == 0 || before[0].Function != "plain" {
		t.Errorf("line %d of %s, then %d; want 0, then the true one", before[0].Line, before[0].Function, after[0].Line)
	}
}

// TestDamagedCache must be ignored and made anew.
func TestDamagedCache(t *testing.T) {
	program := compile(t, "inlines.c", "-O2", "-g", "-Wl,--build-id")
	addrs := sampleCode(t, program)[:200]
	o := Options{Cache: filepath.Join(t.TempDir(), "cache")}
	want, _, _ := lookUp(t, program, addrs, o)
	path := stored(t, o.Cache)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]func([]byte) []byte{
		"empty":      func([]byte) []byte { return nil },
		"cut":        func(b []byte) []byte { return b[:len(b)/2] },
		"longer":     func(b []byte) []byte { return append(b, 0) },
		"a byte off": func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
		"version":    func(b []byte) []byte { b[7]++; return b },
		"zeros":      func(b []byte) []byte { return make([]byte, len(b)) },
	} {
		if err := os.WriteFile(path, damage(bytes.Clone(good)), 0o600); err != nil {
			t.Fatal(err)
		}
		got, warnings, read := lookUp(t, program, addrs, o)
		if !read || !reflect.DeepEqual(got, want) || len(warnings) > 0 {
			t.Errorf("%s: files read %v, same answers %v, warnings %q", name, read, reflect.DeepEqual(got, want), warnings)
		}
		if again, err := os.ReadFile(path); err != nil || !bytes.Equal(again, good) {
			t.Errorf("%s: the file was not made anew (%v)", name, err)
		}
	}
}

// TestForeignAnswers refuses answers made from other files, under the right name.
func TestForeignAnswers(t *testing.T) {
	data := writeAnswers(map[uint64][]Frame{7: {{Function: "f"}}}, fingerprint{1})
	if _, err := readAnswers(data, fingerprint{2}); err != errOtherAnswers {
		t.Errorf("got %v, want %v", err, errOtherAnswers)
	}
	a, err := readAnswers(data, fingerprint{1})
	if err != nil {
		t.Fatal(err)
	}
	if i, ok := a.find(7); !ok || a.at(i)[0].Function != "f" {
		t.Error("7 is not f")
	}
	if _, ok := a.find(8); ok {
		t.Error("8 was never added")
	}
}

// TestUnsafeDirectories are not used, which is a warning and no more.
func TestUnsafeDirectories(t *testing.T) {
	program := compile(t, "inlines.c", "-O2", "-g", "-Wl,--build-id")
	addrs := []uint64{symbolValue(t, program, "plain")}
	dir := t.TempDir()
	open, file := filepath.Join(dir, "open"), filepath.Join(dir, "file")
	if err := os.Mkdir(open, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	loop := filepath.Join(dir, "loop")
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	for _, cache := range []string{open, filepath.Join(open, "below"), file, loop, "relative", "/proc/1/task/none"} {
		frames, warnings, _ := lookUp(t, program, addrs, Options{Cache: cache})
		if len(warnings) != 1 || !strings.Contains(warnings[0], "symbol cache") || frames[0].Function != "plain" {
			t.Errorf("%s: %s, warnings %q; want plain and one warning", cache, frames[0].Function, warnings)
		}
	}
	if found, _ := filepath.Glob(filepath.Join(open, "*")); len(found) > 0 {
		t.Errorf("%q was made where others may write", found)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink("real", link); err != nil {
		t.Fatal(err)
	}
	if _, warnings, _ := lookUp(t, program, addrs, Options{Cache: link}); len(warnings) > 0 {
		t.Errorf("our own symbolic link: %q", warnings)
	}
	stored(t, filepath.Join(dir, "real"))
}

// TestPlantedLink must not be followed: neither read nor written through.
func TestPlantedLink(t *testing.T) {
	program := compile(t, "inlines.c", "-O2", "-g", "-Wl,--build-id")
	addrs := []uint64{symbolValue(t, program, "plain")}
	o := Options{Cache: filepath.Join(t.TempDir(), "cache")}
	lookUp(t, program, addrs, o)
	path, outside := stored(t, o.Cache), filepath.Join(t.TempDir(), "outside")
	if err := os.Rename(path, outside); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, path); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(outside)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, read := lookUp(t, program, addrs, o); !read {
		t.Error("answers were read through a symbolic link")
	}
	after, err := os.Stat(outside)
	if err != nil || !os.SameFile(before, after) || !after.ModTime().Equal(before.ModTime()) {
		t.Errorf("the file outside was touched (%v)", err)
	}
	if st, err := os.Lstat(stored(t, o.Cache)); err != nil || !st.Mode().IsRegular() {
		t.Errorf("the link was not replaced by a file: %v", err)
	}
}

// TestStoreLimit removes what was unused for longest, and leftovers.
func TestStoreLimit(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	s, err := openStore(dir, answersSuffix)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	s.limit = 3500
	now := time.Now()
	for i := range 3 {
		name := fmt.Sprintf("%d%s", i, answersSuffix)
		if err := s.write(name, make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
		// 1 is the one unused for longest.
		used := now.Add(-time.Duration([]int{2, 3, 1}[i]) * time.Minute)
		if err := os.Chtimes(filepath.Join(dir, name), used, used); err != nil {
			t.Fatal(err)
		}
	}
	old := filepath.Join(dir, tempPrefix+"old")
	if err := os.WriteFile(old, make([]byte, 100), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(old, now.Add(-2*staleAfter), now.Add(-2*staleAfter)); err != nil {
		t.Fatal(err)
	}
	if err := s.write("3"+answersSuffix, make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	found, _ := filepath.Glob(filepath.Join(dir, "*"))
	hidden, _ := filepath.Glob(filepath.Join(dir, ".*"))
	want := []string{filepath.Join(dir, "0.names"), filepath.Join(dir, "2.names"), filepath.Join(dir, "3.names")}
	if !reflect.DeepEqual(found, want) || len(hidden) > 0 {
		t.Errorf("left are %q and %q, want %q", found, hidden, want)
	}
	if err := s.write("4"+answersSuffix, make([]byte, 4000)); err == nil {
		t.Error("a file larger than the limit was written")
	}
}

// FuzzAnswers reads damaged files whose checksum is right.
func FuzzAnswers(f *testing.F) {
	f.Add(writeAnswers(map[uint64][]Frame{7: {{Function: "f", File: "a.c", Line: 3}}, 9: {{Function: "g", Inlined: true}, {Function: "f"}}}, fingerprint{}), uint64(9))
	f.Fuzz(func(t *testing.T, data []byte, addr uint64) {
		defer costtest.Bound(t)()
		if len(data) < headerSize {
			return
		}
		data = append([]byte(nil), data...)
		copy(data, answersMagic)
		seal(data)
		a, err := readAnswers(data, fingerprint(data[24:56]))
		if err != nil {
			return
		}
		a.find(addr)
		for i := range a.n {
			a.at(i)
		}
	})
}
