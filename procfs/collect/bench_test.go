package collect

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/procfs"
)

// BenchmarkCollect runs full collections of 300 idle processes and the rest of
// the machine's beside their floor: the open, read and close of each
// smaps_rollup, unparsed, on as many threads.
func BenchmarkCollect(b *testing.B) {
	n := 300
	if s := os.Getenv("COLLECT_BENCH_PROCESSES"); s != "" {
		n, _ = strconv.Atoi(s)
	}
	startSleepers(b, n)
	pids := withMemory(b)
	names := make([]string, len(pids))
	for i, pid := range pids {
		names[i] = fmt.Sprintf("%d/smaps_rollup", pid)
	}
	dir, err := unix.Open("/proc", unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = unix.Close(dir) }()
	b.Run("floor", func(b *testing.B) {
		used := cpuTime(b)
		for b.Loop() {
			walkFloor(b, dir, names)
		}
		perProcess(b, len(pids), used)
	})
	for _, bench := range []struct {
		name string
		want Fields
		opts Options
	}{
		{"all", All, Options{}},
		{"memory", Memory, Options{}},
		{"basic", Basic, Options{}},
		{"unchanged", All, Options{Budget: DefaultBudget()}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			c := open(b, bench.opts)
			collectAll(b, c, bench.want)
			b.ReportAllocs()
			used := cpuTime(b)
			for b.Loop() {
				collectAll(b, c, bench.want)
			}
			perProcess(b, len(pids), used)
		})
	}
	b.Run("first", func(b *testing.B) {
		used := cpuTime(b)
		for b.Loop() {
			c, err := Open(Options{})
			if err != nil {
				b.Fatal(err)
			}
			collectAll(b, c, All)
			_ = c.Close()
		}
		perProcess(b, len(pids), used)
	})
}

// perProcess reports the processor time of one process's figures, which other
// work of this machine disturbs less than the time by the clock.
func perProcess(b *testing.B, n int, used time.Duration) {
	b.ReportMetric(float64((cpuTime(b)-used).Nanoseconds())/float64(b.N)/float64(n), "cpu-ns/process")
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func startSleepers(b *testing.B, n int) {
	b.Helper()
	for range n {
		cmd := exec.Command("sleep", "600")
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	}
	// Until all have called exec and mapped their libraries.
	c := open(b, Options{})
	for ready := 0; ready < n; {
		ready = 0
		for _, p := range collectAll(b, c, 0).Processes {
			if p.Comm == "sleep" && p.PPID == os.Getpid() && p.State == 'S' {
				ready++
			}
		}
	}
}

func withMemory(b *testing.B) (pids []int) {
	b.Helper()
	for _, p := range collectAll(b, open(b, Options{}), Memory).Processes {
		if p.Outcome(Memory) == procfs.Known {
			pids = append(pids, p.PID)
		}
	}
	return slices.Clip(pids)
}

func walkFloor(b *testing.B, dir int, names []string) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			buf := make([]byte, 4096)
			for {
				i := int(next.Add(1)) - 1
				if i >= len(names) {
					return
				}
				fd, err := unix.Openat(dir, names[i], unix.O_RDONLY, 0)
				if err != nil {
					continue
				}
				if _, err := unix.Read(fd, buf); err != nil && err != unix.ESRCH {
					b.Error(err)
				}
				_ = unix.Close(fd)
			}
		})
	}
	wg.Wait()
}
