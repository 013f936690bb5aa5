package symbol

import (
	"debug/elf"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/tracer/debugfile"
)

// fileSpace is a Space that has the segments of a file at their own addresses.
func fileSpace(t testing.TB, path string) *Space {
	t.Helper()
	fd, _, err := debugfile.OpenRegular(path)
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
		s.current = append(s.current, mapping{region: r, file: f})
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

// randomCode returns n addresses of the functions of a file, each byte of
// which is as likely as any other.
func randomCode(b *testing.B, path string, n int) []uint64 {
	f, err := elf.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		b.Fatal(err)
	}
	symbols = slices.DeleteFunc(symbols, func(s elf.Symbol) bool {
		return elf.ST_TYPE(s.Info) != elf.STT_FUNC || s.Section == elf.SHN_UNDEF || s.Size == 0
	})
	ends := make([]uint64, len(symbols)) // of the functions, laid end to end
	end := uint64(0)
	for i, s := range symbols {
		end += s.Size
		ends[i] = end
	}
	random := rand.New(rand.NewSource(1))
	addrs := make([]uint64, n)
	for i := range addrs {
		at := uint64(random.Int63n(int64(end)))
		j, _ := slices.BinarySearch(ends, at+1)
		addrs[i] = symbols[j].Value + symbols[j].Size - (ends[j] - at)
	}
	return addrs
}

// peak starts counting peak memory anew and returns what reports it, which
// includes the pages of mapped files.
func peak(b *testing.B) func() {
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		b.Fatal(err)
	}
	return func() {
		status, err := os.ReadFile("/proc/self/status")
		if err != nil {
			b.Fatal(err)
		}
		_, after, _ := strings.Cut(string(status), "VmHWM:")
		kB, err := strconv.Atoi(strings.Fields(after)[0])
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(kB)/1000, "peak-MB")
	}
}

// BenchmarkCold names 1,000 random addresses with all that was never read
// before; set SYMBOL_BENCH_FILE to a big binary.
func BenchmarkCold(b *testing.B) { benchmarkNames(b, Options{}) }

// BenchmarkCached names them by what an earlier run left.
func BenchmarkCached(b *testing.B) {
	o := Options{Cache: filepath.Join(b.TempDir(), "cache")}
	path := benchProgram(b)
	lookUp(b, path, randomCode(b, path, 1000), o)
	benchmarkNames(b, o)
}

func benchmarkNames(b *testing.B, o Options) {
	path := benchProgram(b)
	addrs := randomCode(b, path, 1000)
	report := peak(b)
	for b.Loop() {
		s, r := fileSpace(b, path), NewResolver(o)
		for _, a := range addrs {
			r.Frames(s, []uint64{a}, false)
		}
		r.Close()
		s.Close()
	}
	report()
}

// BenchmarkAddr2line asks addr2line for the same addresses.
func BenchmarkAddr2line(b *testing.B) { benchmarkPeer(b, "addr2line", "-a", "-f", "-i", "-C", "-e") }

// BenchmarkLLVM asks llvm-symbolizer for them.
func BenchmarkLLVM(b *testing.B) {
	benchmarkPeer(b, "llvm-symbolizer-19", "--output-style=GNU", "-f", "-i", "-C", "-e")
}

func benchmarkPeer(b *testing.B, name string, args ...string) {
	path := benchProgram(b)
	args = append(args, path)
	for _, a := range randomCode(b, path, 1000) {
		args = append(args, hexName(a))
	}
	most := int64(0)
	for b.Loop() {
		cmd := exec.Command(name, args...)
		if err := cmd.Run(); err != nil {
			b.Fatal(err)
		}
		most = max(most, cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss)
	}
	b.ReportMetric(float64(most)/1000, "peak-MB")
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
		if err := s.Refresh(0); err != nil {
			b.Fatal(err)
		}
	}
}
