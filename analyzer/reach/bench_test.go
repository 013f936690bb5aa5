package reach

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

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

// heapProgram is a program with a heap, of which it lists the blocks.
type heapProgram struct {
	process *procfs.Process
	blocks  []Leak
	lost    Sum // as it says itself
	in      io.Writer
	out     *bufio.Reader
}

// startHeapProgram starts a program that writes its blocks to the file list
// and then says "ready", how many it has lost and their bytes.
func startHeapProgram(t testing.TB, list string, cmd *exec.Cmd) *heapProgram {
	t.Helper()
	h := new(heapProgram)
	var err error
	if h.in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	h.out = bufio.NewReader(out)
	if _, err := fmt.Fscanf(h.out, "ready %d %d\n", &h.lost.Count, &h.lost.Bytes); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	h.blocks = make([]Leak, len(data)/16)
	for i := range h.blocks {
		h.blocks[i] = Leak{Addr: binary.NativeEndian.Uint64(data[16*i:]), Size: binary.NativeEndian.Uint64(data[16*i+8:])}
	}
	h.process = openProcess(t, cmd.Process.Pid)
	return h
}

// startHeap starts a program with a heap of a size in MiB.
func startHeap(t testing.TB, mib int, order string) *heapProgram {
	t.Helper()
	dir := t.TempDir()
	program, list := filepath.Join(dir, "leak_bench"), filepath.Join(dir, "list")
	compile(t, "gcc", "-O2", "-o", program, programs+"/leak_bench.c")
	return startHeapProgram(t, list, exec.Command(program, strconv.Itoa(mib), list, order))
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
		h := startHeap(t, 48, order)
		for _, workers := range []int{1, 4} {
			r, err := Scan(h.process, eachOfList(h.blocks), Options{Workers: workers, AllSeen: true})
			if err != nil {
				t.Fatal(err)
			}
			if got := r.Sums[Definite]; got != h.lost || r.Sums[Possible].Count+r.Sums[Indirect].Count != 0 {
				t.Errorf("%s, %d workers: %+v, want %+v definite", order, workers, r.Sums, h.lost)
			}
			for _, l := range r.Leaks {
				if b := h.blocks[l.Site]; b.Addr != l.Addr || b.Size != l.Size {
					t.Fatalf("%s: a leak %+v has the site of %+v", order, l, b)
				}
			}
		}
	}
}

// BenchmarkScan reports the heap's bytes per second of processor time, over
// the whole scan and over its reading and marking alone.
func BenchmarkScan(b *testing.B) {
	for _, order := range []string{"near", "far"} {
		b.Run(order, func(b *testing.B) { benchmarkScan(b, order) })
	}
}

func benchmarkScan(b *testing.B, order string) {
	h := startHeap(b, benchSize(), order)
	p, each := h.process, eachOfList(h.blocks)
	for _, workers := range []int{1, 2} {
		b.Run(strconv.Itoa(workers), func(b *testing.B) {
			var r Result
			var read float64 // while marking
			var mark, whole time.Duration
			for b.Loop() {
				start := cpuTime()
				c := &scan{p: p, options: Options{Workers: workers, AllSeen: true}}
				if err := c.prepare(each); err != nil {
					b.Fatal(err)
				}
				began := cpuTime()
				c.reachable()
				mark += cpuTime() - began
				read = float64(c.mem.read.Load())
				c.possible()
				c.leaked()
				c.finish(each)
				whole += cpuTime() - start
				r = c.Result
				c.close()
			}
			heap := float64(r.Sums[0].Bytes + r.Sums[1].Bytes + r.Sums[2].Bytes + r.Sums[3].Bytes)
			all := float64(b.N) * heap / 1e9
			b.ReportMetric(all/mark.Seconds(), "mark-GB/cpu-s")
			b.ReportMetric(all/whole.Seconds(), "whole-GB/cpu-s")
			b.ReportMetric(float64(r.Memory)/float64(len(h.blocks)), "bytes/block")
			b.ReportMetric(float64(r.LongestStep.Microseconds()), "longest-µs")
			b.ReportMetric(read/heap, "times-read")
		})
	}
}

// BenchmarkPlainRead reads the same memory and does nothing with it.
func BenchmarkPlainRead(b *testing.B) {
	p := startHeap(b, benchSize(), "far").process
	m := &memory{tid: p.PID()}
	var s space
	if err := s.load(p, m, &index{}, &Options{}); err != nil {
		b.Fatal(err)
	}
	buf, err := newBuffer()
	if err != nil {
		b.Fatal(err)
	}
	defer buf.close()
	start := cpuTime()
	for b.Loop() {
		for i := range s.windows {
			buf.addr = 0
			buf.fill(m, &s.windows[i], s.windows[i].present)
		}
	}
	b.ReportMetric(float64(b.N)*float64(s.presentBytes())/1e9/(cpuTime()-start).Seconds(), "GB/cpu-s")
}
