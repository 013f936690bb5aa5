package procfs

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/procfs/proctest"
)

// Each reader runs beside its floor: opening, reading and closing the same
// file of the same stopped process, with no parsing. Their ratio is the cost
// of this package.
func BenchmarkStatm(b *testing.B) {
	beside(b, fileStatm, func(p *Process) error { _, err := p.Statm(); return err })
}

func BenchmarkStat(b *testing.B) {
	beside(b, fileStat, func(p *Process) error { _, err := p.Stat(); return err })
}

func BenchmarkSmapsRollup(b *testing.B) {
	beside(b, fileRollup, func(p *Process) error { _, err := p.SmapsRollup(); return err })
}

func BenchmarkMaps(b *testing.B) {
	beside(b, fileMaps, func(p *Process) error { return p.Maps(func(*VMA) {}) })
}

func BenchmarkSmaps(b *testing.B) {
	beside(b, fileSmaps, func(p *Process) error { return p.Smaps(func(*VMA) {}) })
}

func BenchmarkStatus(b *testing.B) {
	beside(b, fileStatus, func(p *Process) error { _, err := p.Status(); return err })
}

func BenchmarkCommandLine(b *testing.B) {
	beside(b, fileCmd, func(p *Process) error { _, err := p.CommandLine(); return err })
}

func BenchmarkCgroup(b *testing.B) {
	beside(b, fileCgroup, func(p *Process) error { _, err := p.Cgroup(); return err })
}

func BenchmarkOOMScore(b *testing.B) {
	beside(b, fileOOMScore, func(p *Process) error { _, err := p.OOMScore(); return err })
}

func BenchmarkNumaMaps(b *testing.B) {
	beside(b, fileNuma, func(p *Process) error { _, err := p.NUMA(nil); return err })
}

func beside(b *testing.B, file string, read func(*Process) error) {
	cmd := startChild(b, "child")
	proctest.Stop(b, cmd.Process.Pid)
	p := openLive(b, cmd.Process.Pid)
	b.Run("floor", func(b *testing.B) {
		buf := make([]byte, maxText)
		b.ReportAllocs()
		for b.Loop() {
			floor(b, p, file, buf)
		}
	})
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := read(p); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// floor reads a file to its end, or once where the kernel gives it in one piece.
func floor(b *testing.B, p *Process, file string, buf []byte) {
	fd, err := p.open(file)
	if err != nil {
		b.Fatal(err)
	}
	for {
		n, err := unix.Read(fd, buf)
		if err != nil {
			b.Fatal(err)
		}
		if n == 0 || file != fileMaps && file != fileSmaps && file != fileNuma {
			break
		}
	}
	_ = unix.Close(fd)
}

// BenchmarkPages reads the states of 64 MiB of touched memory.
func BenchmarkPages(b *testing.B) {
	const size = 64 << 20
	mem, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = unix.Munmap(mem) }()
	_ = unix.Madvise(mem, unix.MADV_NOHUGEPAGE)
	for i := 0; i < size; i += 2 * 4096 { // every other page: the longest list of runs
		mem[i] = 1
	}
	m, err := openLive(b, os.Getpid()).OpenPagemap()
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	start := addressOf(mem)
	for name, runs := range map[string]func(a, b uint64, fn func(a, b uint64, s PageState)) error{
		"scan": m.Runs, "file": m.readRuns,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			pages := uint64(0)
			count := func(a, b uint64, s PageState) { pages += (b - a) / pageSize }
			for b.Loop() {
				if err := runs(start, start+size, count); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(size/4096), "ns/page")
		})
	}
}

func addressOf(mem []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))) }

// BenchmarkParseSmaps is the parsing alone.
func BenchmarkParseSmaps(b *testing.B) {
	data, err := os.ReadFile(filepath.Join(fixtures, "6.18", "4001", "smaps"))
	if err != nil {
		b.Fatal(err)
	}
	r := new(vmaReader)
	src := new(bytes.Reader)
	b.ReportAllocs()
	mappings := 0
	for b.Loop() {
		src.Reset(data)
		n, err := r.parse(src, visitor{each: func(*VMA) {}})
		if err != nil {
			b.Fatal(err)
		}
		mappings += n
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(mappings), "ns/mapping")
}
