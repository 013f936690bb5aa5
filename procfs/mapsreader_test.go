//go:build linux && !viewer

package procfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// longPath makes a file whose path below dir has n bytes at least, and returns it open for reading. Its directories are
// entered one after the other, as no call takes as long a path.
func longPath(t *testing.T, n int) *os.File {
	t.Helper()
	dir, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	name := strings.Repeat("d", 199) + "\n"
	for at := 0; at < n; at += len(name) + 1 {
		if err := dir.Mkdir(name, 0o755); err != nil {
			t.Fatal(err)
		}
		inner, err := dir.OpenRoot(name)
		if err := errors.Join(err, dir.Close()); err != nil {
			t.Fatal(err)
		}
		dir = inner
	}
	defer func() { _ = dir.Close() }()
	f, err := dir.Create("f")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if err := f.Truncate(1 << 20); err != nil {
		t.Fatal(err)
	}
	return f
}

// mapLong maps a file n times, of which some parts are code, some are code with code in anonymous memory in the midst,
// as of a program that moved it there, and some have anonymous code behind them that is not the file's.
func mapLong(t *testing.T, f *os.File, n int) {
	t.Helper()
	page := os.Getpagesize()
	for i := range n {
		mem, err := unix.Mmap(int(f.Fd()), 0, 4*page, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Munmap(mem) })
		switch i % 4 {
		case 0:
			err = unix.Mprotect(mem[:page], unix.PROT_READ)
		case 1:
			anonymous(t, mem[page:2*page], unix.PROT_READ|unix.PROT_EXEC)
		case 2:
			anonymous(t, mem[3*page:], unix.PROT_READ|unix.PROT_EXEC)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// anonymous puts anonymous memory where other memory was mapped.
func anonymous(t *testing.T, mem []byte, prot uintptr) {
	t.Helper()
	const flags = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_FIXED
	_, _, errno := unix.Syscall6(unix.SYS_MMAP, uintptr(addressOf(mem)), uintptr(len(mem)), prot, flags, ^uintptr(0), 0)
	if errno != 0 {
		t.Fatal(errno)
	}
}

// vmaText is all that is told of a mapping.
func vmaText(v *VMA) string {
	return fmt.Sprintf("%x-%x %v %x %x:%x %d %v %q %v",
		v.Start, v.End, v.Perms, v.Offset, v.DevMajor, v.DevMinor, v.Inode, v.Kind, v.Path, v.Moved)
}

// listOwn returns what a reader lists of our own mappings, as text, and whether queries were asked.
func listOwn(t *testing.T, textOnly bool, read func(*mapsReader, func(*VMA) bool) error) (list []string, asked bool) {
	t.Helper()
	fd, err := unix.Open("/proc/self/maps", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	file := &fdReader{fd}
	defer file.close()
	r := newMapsReader(file, 0)
	defer r.done()
	r.textOnly = textOnly
	err = read(r, func(v *VMA) bool {
		// Go's runtime maps what it likes meanwhile; what is looked at stays.
		if v.Inode != 0 || v.Moved || v.Perms&Exec != 0 && v.Start < 1<<63 {
			list = append(list, vmaText(v))
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return list, r.asks != nil
}

func eachOf(r *mapsReader, fn func(*VMA) bool) error {
	for {
		v, err := r.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		fn(v)
	}
}

func codeOf(r *mapsReader, fn func(*VMA) bool) error {
	r.only = Exec
	_, err := r.code(fn)
	return err
}

// haveQueries reports whether this kernel knows PROCMAP_QUERY, which it has to from Linux 6.11 on.
func haveQueries(t *testing.T) bool {
	t.Helper()
	err := openLive(t, os.Getpid()).queryOwn()
	var name unix.Utsname
	if errors.Is(err, ErrNotSupported) && unix.Uname(&name) == nil {
		release := unix.ByteSliceToString(name.Release[:])
		var major, minor int
		if _, scan := fmt.Sscanf(release, "%d.%d", &major, &minor); scan != nil || major > 6 || major == 6 && minor >= 11 {
			t.Fatalf("Linux %s: %v", release, err)
		}
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	return true
}

func (p *Process) queryOwn() error {
	_, err := p.queryVMA(0x1000, func(*VMA, []byte) {})
	return err
}

// TestLongMaps: text and queries list the same, all mappings and those of code, with what was moved.
func TestLongMaps(t *testing.T) {
	f := longPath(t, 3500)
	mapLong(t, f, 200)
	for name, read := range map[string]func(*mapsReader, func(*VMA) bool) error{"all": eachOf, "code": codeOf} {
		text, asked := listOwn(t, true, read)
		if asked || !slices.ContainsFunc(text, func(s string) bool { return strings.Contains(s, `\\012`) }) {
			t.Fatalf("%s: no text, or no long paths: %d lines", name, len(text))
		}
		moved := 0
		for _, line := range text {
			if strings.HasSuffix(line, "true") {
				moved++
			}
		}
		if want := map[string]int{"all": 0, "code": 50}[name]; moved != want {
			t.Errorf("%s: %d mappings of code that was moved, want %d", name, moved, want)
		}
		answers, asked := listOwn(t, false, read)
		if asked != haveQueries(t) {
			t.Errorf("%s: asked: %v", name, asked)
		}
		if !slices.Equal(text, answers) {
			t.Errorf("%s: %d lines of text, %d with answers", name, len(text), len(answers))
			for i := range min(len(text), len(answers)) {
				if text[i] != answers[i] {
					t.Fatalf("line %d:\n%.200s\n%.200s", i, text[i], answers[i])
				}
			}
		}
	}
}

// TestSomeMaps: those with permissions, and those that are wanted, are listed as they are among all.
func TestSomeMaps(t *testing.T) {
	mapLong(t, longPath(t, 3500), 100)
	p := openLive(t, os.Getpid())
	list := func(each func(fn func(*VMA)) error) (list []string) {
		if err := each(func(v *VMA) {
			if v.Inode != 0 && v.Start < 1<<63 {
				list = append(list, vmaText(v))
			}
		}); err != nil {
			t.Fatal(err)
		}
		return list
	}
	begin := func(v *VMA) bool { return v.Inode != 0 && v.Offset == 0 }
	for name, c := range map[string]struct {
		some func(fn func(*VMA)) error
		is   func(*VMA) bool
	}{
		"code": {
			func(fn func(*VMA)) error { return p.MapsWith(Read|Exec, fn) },
			func(v *VMA) bool { return v.Perms&(Read|Exec) == Read|Exec },
		},
		"beginnings": {func(fn func(*VMA)) error { return p.MapsOf(begin, fn) }, begin},
	} {
		want := list(func(fn func(*VMA)) error {
			return p.Maps(func(v *VMA) {
				if c.is(v) {
					fn(v)
				}
			})
		})
		if got := list(c.some); len(want) < 25 || !slices.Equal(got, want) {
			t.Errorf("%s: %d mappings, want %d", name, len(got), len(want))
		}
	}
}

// TestPathThatQueriesCannotTell: it is a mapping like others.
func TestPathThatQueriesCannotTell(t *testing.T) {
	if !haveQueries(t) {
		return
	}
	mapLong(t, longPath(t, 5000), 100)
	list, asked := listOwn(t, false, codeOf)
	n := 0
	for _, line := range list {
		if strings.Contains(line, LongPath) {
			n++
		}
	}
	if !asked || n < 50 {
		t.Errorf("asked: %v, %d such paths", asked, n)
	}
}

// TestCodeFrom: what is before is left out, and the code that holds the address is not.
func TestCodeFrom(t *testing.T) {
	page := os.Getpagesize()
	mem, err := unix.Mmap(-1, 0, 8*page, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(mem) }()
	const code = unix.PROT_READ | unix.PROT_EXEC
	if err := errors.Join(unix.Mprotect(mem[:page], code), unix.Mprotect(mem[4*page:5*page], code)); err != nil {
		t.Fatal(err)
	}
	at := addressOf(mem)
	for from, want := range map[uint64]uint64{at: at, at + 1: at, at + uint64(page): at + 4*uint64(page)} {
		var got uint64
		err := CodeFrom("/proc/self", from, func(v *VMA) bool { got = v.Start; return false })
		if err != nil || got != want {
			t.Errorf("from %x: %x, %v; want %x", from, got, err, want)
		}
	}
}

// TestCodeSum: it changes with code of a file that is mapped, and not with other memory.
func TestCodeSum(t *testing.T) {
	p := openLive(t, os.Getpid())
	sum := func() CodeSum {
		s, err := p.CodeSum()
		if err != nil {
			t.Fatal(err)
		}
		var listed CodeSum
		if _, err := Code("/proc/self", func(v *VMA) bool { listed.Add(v); return true }); err != nil || listed != s {
			t.Errorf("%x, of the code that is listed %x, %v", s, listed, err)
		}
		return s
	}
	before := sum()
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for prot, changes := range map[int]bool{unix.PROT_READ: false, unix.PROT_READ | unix.PROT_EXEC: true} {
		mem, err := unix.Mmap(int(f.Fd()), 0, os.Getpagesize(), prot, unix.MAP_PRIVATE)
		if err != nil {
			t.Fatal(err)
		}
		if now := sum(); (now != before) != changes {
			t.Errorf("protection %d: the sum changes: %v", prot, now != before)
		}
		if err := unix.Munmap(mem); err != nil {
			t.Fatal(err)
		}
	}
	if now := sum(); now != before {
		t.Error("the sum is another one after all")
	}
}

// manyLines is what the kernel writes of n mappings, every other one of them code.
func manyLines(n int) []byte {
	var text bytes.Buffer
	for i := range n {
		fmt.Fprintf(&text, "%x-%x r-%cp 00001000 fe:01 7                       /usr/lib/libx.so.%d\n",
			i<<13, i<<13+4096, "-x"[i%2], i%3)
	}
	return text.Bytes()
}

// TestCodeAllocates: nothing for a line.
func TestCodeAllocates(t *testing.T) {
	src, data := new(bytes.Reader), manyLines(10_000)
	n := 0
	allocs := testing.AllocsPerRun(5, func() {
		src.Reset(data)
		if _, err := CodeIn(src, func(*VMA) bool { n++; return true }); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 10 || n != 6*5_000 {
		t.Errorf("%v allocations, %d mappings", allocs, n)
	}
}

// BenchmarkCode is the parsing alone.
func BenchmarkCode(b *testing.B) {
	const n = 1000
	src, data := new(bytes.Reader), manyLines(n)
	b.ReportAllocs()
	for b.Loop() {
		src.Reset(data)
		if _, err := CodeIn(src, func(*VMA) bool { return true }); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/mapping")
}

// FuzzCode: whatever a text says, what is listed is code, and only anonymous memory between two parts of a file is
// given that file.
func FuzzCode(f *testing.F) {
	texts, err := filepath.Glob(fixtures + "/*/*/maps")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range texts {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte("1000-2000 r--p 00000000 fe:01 7 /a\n" +
		"2000-3000 r-xp 00000000 00:00 0 \n" + "3000-4000 r--p 00002000 fe:01 7 /a\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		any, err := CodeIn(bytes.NewReader(data), func(v *VMA) bool {
			if v.Perms&Exec == 0 || v.Start >= v.End || v.Moved && v.Inode == 0 {
				t.Errorf("%s", vmaText(v))
			}
			return true
		})
		if err != nil && !errors.Is(err, ErrFormat) || err == nil && any != (len(data) > 0) {
			t.Errorf("any: %v, %v", any, err)
		}
	})
}
