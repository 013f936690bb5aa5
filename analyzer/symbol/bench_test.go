package symbol

import (
	"debug/elf"
	"math/rand"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// fileSpace is a Space that has the segments of a file at their own addresses.
func fileSpace(t testing.TB, path string) *Space {
	t.Helper()
	fd, _, err := openRegular(path)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	e, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s := &Space{root: -1}
	for _, p := range e.Progs {
		if p.Type != elf.PT_LOAD || p.Flags&elf.PF_X == 0 {
			continue
		}
		f, err := files.open(fd, path)
		if err != nil {
			t.Fatal(err)
		}
		r := region{start: p.Vaddr, end: p.Vaddr + p.Filesz, offset: p.Off, inode: 1, path: path}
		s.current = append(s.current, mapping{r, f})
	}
	t.Cleanup(s.Close)
	return s
}

// benchProgram is a binary with much DWARF: that of SYMBOL_BENCH_FILE, else
// the test program.
func benchProgram(b *testing.B) string {
	if path := os.Getenv("SYMBOL_BENCH_FILE"); path != "" {
		return path
	}
	return compile(b, "inlines.cc", "-O2", "-g")
}

func randomCode(b *testing.B, path string, n int) []uint64 {
	all := sampleCode(b, path)
	random := rand.New(rand.NewSource(1))
	addrs := make([]uint64, n)
	for i := range addrs {
		addrs[i] = all[random.Intn(len(all))]
	}
	return addrs
}

// BenchmarkCold names 1,000 random addresses with all that was never read
// before; set SYMBOL_BENCH_FILE to a big binary.
func BenchmarkCold(b *testing.B) {
	path := benchProgram(b)
	addrs := randomCode(b, path, 1000)
	for b.Loop() {
		s, r := fileSpace(b, path), NewResolver(Options{})
		for _, a := range addrs {
			r.Frames(s, []uint64{a}, false)
		}
		r.Close()
	}
}

// BenchmarkAddr2line asks addr2line for the same addresses.
func BenchmarkAddr2line(b *testing.B) {
	path := benchProgram(b)
	addrs := randomCode(b, path, 1000)
	for b.Loop() {
		addr2line(b, path, addrs)
	}
}

// BenchmarkWarm names a stack of 20 known frames.
func BenchmarkWarm(b *testing.B) {
	path := benchProgram(b)
	addrs := randomCode(b, path, 20)
	s, r := fileSpace(b, path), newResolver(b, Options{})
	for b.Loop() {
		r.Frames(s, addrs, true)
	}
}

// BenchmarkFunction names one function as --events does for each event.
func BenchmarkFunction(b *testing.B) {
	path := benchProgram(b)
	addr := randomCode(b, path, 1)[0]
	s, r := fileSpace(b, path), newResolver(b, Options{})
	for b.Loop() {
		r.Function(s, addr)
	}
}

// BenchmarkRefresh reads the mappings of a process that did not change.
func BenchmarkRefresh(b *testing.B) {
	s, err := NewSpace("/proc", os.Getpid())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.Close)
	for b.Loop() {
		if err := s.Refresh(); err != nil {
			b.Fatal(err)
		}
	}
}
