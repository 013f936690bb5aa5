package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/analyzer/reach"
	"github.com/memtrace/memtrace/procfs"
)

// leakRun is a leak scan of one big heap, testdata/programs/leak_bench.c.
type leakRun struct {
	order            string
	blocks           int
	bytes            uint64
	lost, found      reach.Sum
	plain, mark      float64 // GB of the heap a second of processor time
	whole            time.Duration
	hold             time.Duration
	perBlock, passes float64
	lsan             time.Duration // LeakSanitizer's check of the same heap; 0: there is none
}

// leakScans measures scans of heaps of a size in MiB.
func (s *settings) leakScans() (runs []leakRun, err error) {
	for _, order := range []string{"near", "far"} {
		r, err := s.leakScan(order)
		if err != nil {
			return nil, fmt.Errorf("scan a heap of %d MiB (%s): %w", s.heap, order, err)
		}
		runs = append(runs, r)
	}
	return runs, nil
}

func (s *settings) leakScan(order string) (r leakRun, err error) {
	list, err := os.CreateTemp("", "memtrace-bench")
	if err != nil {
		return r, err
	}
	defer os.Remove(list.Name())
	defer list.Close()
	r.order = order
	if r.lsan, err = s.lsanCheck(order, list.Name()); err != nil {
		return r, err
	}
	cmd := exec.Command(filepath.Join(s.programs, "leak_bench"), strconv.Itoa(s.heap), list.Name(), order)
	if _, err := cmd.StdinPipe(); err != nil {
		return r, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return r, err
	}
	if err := cmd.Start(); err != nil {
		return r, err
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	if _, err := fmt.Fscanf(bufio.NewReader(out), "ready %d %d\n", &r.lost.Count, &r.lost.Bytes); err != nil {
		return r, err
	}
	return r, r.scan(cmd.Process.Pid, list.Name())
}

func (r *leakRun) scan(pid int, list string) error {
	data, err := os.ReadFile(list)
	if err != nil {
		return err
	}
	fs, err := procfs.New(procfs.DefaultRoot)
	if err != nil {
		return err
	}
	p, err := fs.Process(pid)
	if err != nil {
		return err
	}
	defer p.Close()
	r.blocks = len(data) / 16
	blocks := func(yield func(addr, size uint64, site uint32) bool) {
		for at := 0; at+16 <= len(data); at += 16 {
			if !yield(binary.NativeEndian.Uint64(data[at:]), binary.NativeEndian.Uint64(data[at+8:]), 0) {
				return
			}
		}
	}
	res, err := reach.Scan(p, blocks, reach.Options{AllSeen: true, Workers: 1})
	if err != nil {
		return err
	}
	for _, sum := range res.Sums {
		r.bytes += sum.Bytes
	}
	r.found, r.whole, r.hold = res.Sums[reach.Definite], res.Took, res.LongestStep
	r.mark = float64(r.bytes) / float64(res.MarkCPU.Nanoseconds())
	r.perBlock = float64(res.Memory) / float64(r.blocks)
	r.passes = float64(res.Read) / float64(r.bytes)
	r.plain, err = plainRead(p)
	return err
}

// plainRead reads all private writable memory of a process as a scan does, and
// does nothing with it. It returns GB a second of processor time.
func plainRead(p *procfs.Process) (float64, error) {
	const step = 256 << 10
	buf := make([]byte, step)
	var ranges [][2]uint64
	err := p.Maps(func(v *procfs.VMA) {
		if v.Perms&procfs.Write != 0 && v.Inode == 0 {
			ranges = append(ranges, [2]uint64{v.Start, v.End})
		}
	})
	if err != nil {
		return 0, err
	}
	began, total := processTime(), 0
	for _, r := range ranges {
		for at := r[0]; at < r[1]; at += step {
			n := min(step, r[1]-at)
			local := unix.Iovec{Base: unsafe.SliceData(buf)}
			local.SetLen(int(n))
			got, err := unix.ProcessVMReadv(p.PID(), []unix.Iovec{local}, []unix.RemoteIovec{{Base: uintptr(at), Len: int(n)}}, 0)
			if err != nil {
				break // such as a guard
			}
			total += got
		}
	}
	return float64(total) / float64((processTime() - began).Nanoseconds()), nil
}

// processTime is the processor time that the benchmark itself took.
func processTime() time.Duration {
	ns, err := cpuTime(os.Getpid())
	if err != nil {
		return 0
	}
	return time.Duration(ns)
}

// lsanCheck has the program check itself with LeakSanitizer: by the clock, as
// it stops the program for that. Without gcc's library for it there is none.
func (s *settings) lsanCheck(order, list string) (time.Duration, error) {
	program := filepath.Join(s.programs, "leak_bench_lsan")
	if _, err := os.Stat(program); err != nil {
		return 0, nil
	}
	cmd := exec.Command(program, strconv.Itoa(s.heap), list, order)
	cmd.Env = append(os.Environ(), "LSAN_OPTIONS=exitcode=0:max_leaks=1")
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("run %s: %w", program, err)
	}
	var found int
	var ns float64
	if _, err := fmt.Fscan(bytes.NewReader(out), &found, &ns); err != nil || found == 0 {
		return 0, fmt.Errorf("LeakSanitizer said %q: %w", out, err)
	}
	return time.Duration(ns), nil
}

// Marks of the section of leak scans in docs/benchmarks.md.
const (
	leaksBegin = "<!-- leak scans: begin -->\n"
	leaksEnd   = "<!-- leak scans: end -->\n"
)

func leakText(runs []leakRun) string {
	if len(runs) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n## Leak scans\n\nA heap of %.1f GiB in %.1f million blocks (testdata/programs/leak_bench.c), scanned from outside by one worker; measured on %s, load %s.\n"+
		"GB are of the heap, for a second of processor time. Pointers lead to neighbours, or anywhere.\n\n"+
		"| | near | far |\n|---|---:|---:|\n", leaksBegin, float64(runs[0].bytes)/(1<<30), float64(runs[0].blocks)/1e6, machine(), load())
	row := func(name, format string, value func(r *leakRun) any) {
		fmt.Fprintf(&b, "| %s |", name)
		for i := range runs {
			fmt.Fprintf(&b, " "+format+" |", value(&runs[i]))
		}
		b.WriteByte('\n')
	}
	row("plain read of the same memory", "%.1f GB/s", func(r *leakRun) any { return r.plain })
	row("read and mark", "%.1f GB/s", func(r *leakRun) any { return r.mark })
	row("the whole scan, by the clock", "%.1f s", func(r *leakRun) any { return r.whole.Seconds() })
	row("LeakSanitizer's check of the same heap, by the clock, the program stopped", "%.1f s", func(r *leakRun) any { return r.lsan.Seconds() })
	row("memory of the scan, beside the live heap", "%.1f bytes a block", func(r *leakRun) any { return r.perBlock })
	row("times that the heap was read, over all passes", "%.2f", func(r *leakRun) any { return r.passes })
	row("longest call that read memory", "%.2f ms", func(r *leakRun) any { return r.hold.Seconds() * 1000 })
	row("blocks that the program lost", "%d", func(r *leakRun) any { return r.lost.Count })
	row("of them found definite", "%d", func(r *leakRun) any { return r.found.Count })
	b.WriteString("\n" + leaksEnd)
	return b.String()
}

// load is the machine's load average of the last minute.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}

// replaceLeaks puts the section into a document that has one, or at its end.
func replaceLeaks(doc, section string) string {
	from, to := strings.Index(doc, leaksBegin), strings.Index(doc, leaksEnd)
	if from < 0 || to < from {
		return doc + "\n" + section
	}
	return doc[:from] + section + doc[to+len(leaksEnd):]
}
