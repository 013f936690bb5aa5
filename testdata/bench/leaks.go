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
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/analyzer/reach"
	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/testdata/bench/figures"
)

// leakRun is a leak scan of one big heap, testdata/programs/leak_bench.c.
type leakRun struct {
	Machine, Load         string
	Blocks                int
	Bytes                 uint64
	Lost, Found, Possible reach.Sum
	Plain, Mark           float64 // GB of the heap a second of processor time
	Whole                 time.Duration
	Hold                  time.Duration
	PerBlock, Passes      float64
	LSan                  time.Duration // LeakSanitizer's check of the same heap; 0: there is none
}

// leakScan measures the scan of a heap of a size in MiB, after its pointers
// were laid out near or far.
func (s *settings) leakScan(order string) (r leakRun, err error) {
	list, err := os.CreateTemp("", "memtrace-bench")
	if err != nil {
		return r, err
	}
	defer os.Remove(list.Name())
	defer list.Close()
	r.Machine, r.Load = figures.Machine(), figures.Load()
	if r.LSan, err = s.lsanCheck(order, list.Name()); err != nil {
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
	if _, err := fmt.Fscanf(bufio.NewReader(out), "ready %d %d\n", &r.Lost.Count, &r.Lost.Bytes); err != nil {
		return r, err
	}
	return r, r.scan(cmd.Process.Pid, list.Name())
}

func (r *leakRun) scan(pid int, list string) error {
	data, err := os.ReadFile(list)
	if err != nil {
		return err
	}
	p, err := openProcess(pid)
	if err != nil {
		return err
	}
	defer p.Close()
	r.Blocks = len(data) / 16
	res, err := reach.Scan(p, listed(data), reach.Options{AllSeen: true, Workers: 1})
	if err != nil {
		return err
	}
	for _, sum := range res.Sums {
		r.Bytes += sum.Bytes
	}
	r.Found, r.Possible = res.Sums[reach.Definite], res.Sums[reach.Possible]
	r.Whole, r.Hold = res.Took, res.LongestStep
	r.Mark = float64(r.Bytes) / float64(res.MarkCPU.Nanoseconds())
	r.PerBlock = float64(res.Memory) / float64(r.Blocks)
	r.Passes = float64(res.Read) / float64(r.Bytes)
	r.Plain, err = plainRead(p)
	return err
}

func openProcess(pid int) (*procfs.Process, error) {
	fs, err := procfs.New(procfs.DefaultRoot)
	if err != nil {
		return nil, err
	}
	return fs.Process(pid)
}

// listed yields the blocks that a program listed as pairs of words.
func listed(data []byte) reach.Blocks {
	return func(yield func(addr, size uint64, site uint32) bool) {
		for at := 0; at+16 <= len(data); at += 16 {
			if !yield(binary.NativeEndian.Uint64(data[at:]), binary.NativeEndian.Uint64(data[at+8:]), 0) {
				return
			}
		}
	}
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
