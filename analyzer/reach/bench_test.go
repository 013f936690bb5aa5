package reach

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/procfs"
)

// benchMiB is the size of the heap that benchmarks read; MEMTRACE_BENCH_MIB
// changes it.
const benchMiB = 256

// benchSize is the size of that heap in MiB.
func benchSize() int {
	if v, err := strconv.Atoi(os.Getenv("MEMTRACE_BENCH_MIB")); err == nil {
		return v
	}
	return benchMiB
}

// startHeap starts a program with a heap of a size in MiB and reads its list of
// blocks, and what it says that it lost.
func startHeap(b testing.TB, mib int, order string) (*procfs.Process, []Leak, Sum) {
	b.Helper()
	dir := b.TempDir()
	program, list := filepath.Join(dir, "leak_bench"), filepath.Join(dir, "list")
	compile(b, "gcc", "-O2", "-o", program, programs+"/leak_bench.c")
	cmd := exec.Command(program, strconv.Itoa(mib), list, order)
	if _, err := cmd.StdinPipe(); err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	var lost Sum
	if _, err := fmt.Fscanf(out, "ready %d %d\n", &lost.Count, &lost.Bytes); err != nil {
		b.Fatal(err)
	}
	data, err := os.ReadFile(list)
	if err != nil {
		b.Fatal(err)
	}
	blocks := make([]Leak, len(data)/16)
	for i := range blocks {
		blocks[i] = Leak{Addr: binary.NativeEndian.Uint64(data[16*i:]), Size: binary.NativeEndian.Uint64(data[16*i+8:])}
	}
	return openProcess(b, cmd.Process.Pid), blocks, lost
}

func eachOfList(blocks []Leak) Blocks {
	return func(yield func(addr, size uint64, site uint32) bool) {
		for i := range blocks {
			if !yield(blocks[i].Addr, blocks[i].Size, uint32(i)) {
				return
			}
		}
	}
}

// TestBigHeap: of many blocks, in whatever order they point to each other and
// however many workers there are, those are lost that the program says.
func TestBigHeap(t *testing.T) {
	for _, order := range []string{"near", "far"} {
		p, blocks, lost := startHeap(t, 48, order)
		for _, workers := range []int{1, 4} {
			r, err := Scan(p, eachOfList(blocks), Options{Workers: workers, AllSeen: true})
			if err != nil {
				t.Fatal(err)
			}
			if got := r.Sums[Definite]; got != lost || r.Sums[Possible].Count+r.Sums[Indirect].Count != 0 {
				t.Errorf("%s, %d workers: %+v, want %+v definite", order, workers, r.Sums, lost)
			}
			for _, l := range r.Leaks {
				if b := blocks[l.Site]; b.Addr != l.Addr || b.Size != l.Size {
					t.Fatalf("%s: a leak %+v has the site of %+v", order, l, b)
				}
			}
		}
	}
}

// cpuTime is the processor time that this process took, which other load on
// the machine does not add to.
func cpuTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkScan reports the heap's bytes per second of processor time, over
// the whole scan and over its reading and marking alone.
func BenchmarkScan(b *testing.B) {
	for _, order := range []string{"near", "far"} {
		b.Run(order, func(b *testing.B) { benchmarkScan(b, order) })
	}
}

func benchmarkScan(b *testing.B, order string) {
	p, blocks, _ := startHeap(b, benchSize(), order)
	each := eachOfList(blocks)
	for _, workers := range []int{1, 2} {
		b.Run(strconv.Itoa(workers), func(b *testing.B) {
			var r Result
			var read float64 // while marking
			var mark, whole time.Duration
			for b.Loop() {
				start := cpuTime(b)
				c := &scan{p: p, options: Options{Workers: workers, AllSeen: true}}
				if err := c.prepare(each); err != nil {
					b.Fatal(err)
				}
				began := cpuTime(b)
				c.reachable()
				mark += cpuTime(b) - began
				read = float64(c.mem.read.Load())
				c.possible()
				c.leaked()
				c.finish(each)
				whole += cpuTime(b) - start
				r = c.Result
				c.close()
			}
			heap := float64(r.Sums[0].Bytes + r.Sums[1].Bytes + r.Sums[2].Bytes + r.Sums[3].Bytes)
			all := float64(b.N) * heap / 1e9
			b.ReportMetric(all/mark.Seconds(), "mark-GB/cpu-s")
			b.ReportMetric(all/whole.Seconds(), "whole-GB/cpu-s")
			b.ReportMetric(float64(r.Memory)/float64(len(blocks)), "bytes/block")
			b.ReportMetric(float64(r.LongestStep.Microseconds()), "longest-µs")
			b.ReportMetric(read/heap, "times-read")
		})
	}
}

// BenchmarkPlainRead reads the same memory and does nothing with it.
func BenchmarkPlainRead(b *testing.B) {
	p, _, _ := startHeap(b, benchSize(), "far")
	m := &memory{tid: p.PID()}
	var s space
	if err := s.load(p, m, &index{}, false); err != nil {
		b.Fatal(err)
	}
	buf, err := newBuffer()
	if err != nil {
		b.Fatal(err)
	}
	defer buf.close()
	start := cpuTime(b)
	for b.Loop() {
		for i := range s.windows {
			buf.addr = 0
			buf.fill(m, &s.windows[i], s.windows[i].present)
		}
	}
	b.ReportMetric(float64(b.N)*float64(s.presentBytes())/1e9/(cpuTime(b)-start).Seconds(), "GB/cpu-s")
}
