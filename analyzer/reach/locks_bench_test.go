package reach

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
)

// BenchmarkLockWaits measures what a program that maps, touches and unmaps
// memory all the time waits for its mmap lock: alone, while it is scanned, and,
// to compare, while its smaps_rollup is read. Each turn of the benchmark is a
// second of its own; MEMTRACE_BENCH_MIB sets the size of its heap.
func BenchmarkLockWaits(b *testing.B) {
	for _, name := range []string{"alone", "scanned", "smaps_rollup"} {
		b.Run(name, func(b *testing.B) {
			l := startLockWaits(b)
			beside := map[string]func() error{
				"scanned": func() error {
					r, err := Scan(l.process, eachOfList(l.blocks), Options{AllSeen: true, Workers: 1})
					l.step.Store(max(l.step.Load(), int64(r.LongestStep)))
					return err
				},
				"smaps_rollup": func() error {
					_, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", l.process.PID()))
					return err
				},
			}[name]
			stop := l.repeat(b, beside)
			var turns, worst, usual float64
			for b.Loop() {
				n, longest, percentile := l.second(b)
				turns, worst, usual = turns+n, max(worst, longest), usual+percentile
			}
			stop()
			b.ReportMetric(turns/float64(b.N), "turns/s")
			b.ReportMetric(worst/1000, "longest-block-µs")
			b.ReportMetric(usual/1000/float64(b.N), "99.9%-µs")
			b.ReportMetric(float64(l.step.Load())/1000, "longest-hold-µs")
		})
	}
}

// TestScanOfAProgramThatMaps: a scan comes to its end, and finds all blocks,
// while the program's memory map changes all the time.
func TestScanOfAProgramThatMaps(t *testing.T) {
	l := startLockWaits(t)
	scans := 0
	stop := l.repeat(t, func() error {
		r, err := Scan(l.process, eachOfList(l.blocks), Options{AllSeen: true})
		if err == nil && r.Sums[Reachable].Count != uint64(len(l.blocks)) {
			err = fmt.Errorf("found %+v, want all of %d blocks", r.Sums, len(l.blocks))
		}
		scans++
		return err
	})
	if turns, _, _ := l.second(t); turns == 0 {
		t.Error("the program stood still")
	}
	stop()
	if scans == 0 {
		t.Error("there was no scan")
	}
}

// lockWaits is the program of that name.
type lockWaits struct {
	*heapProgram
	step atomic.Int64
}

func startLockWaits(t testing.TB) *lockWaits {
	t.Helper()
	dir := t.TempDir()
	program, list := filepath.Join(dir, "lock_waits"), filepath.Join(dir, "list")
	compile(t, "gcc", "-O2", "-o", program, programs+"/lock_waits.c")
	return &lockWaits{heapProgram: startHeapProgram(t, list, exec.Command(program, strconv.Itoa(benchSize()), list))}
}

// second lets the program run for a second and returns its turns, and for how
// long it was blocked in one: the longest and the 99.9th percentile, in ns.
func (l *lockWaits) second(t testing.TB) (turns, longest, percentile float64) {
	t.Helper()
	if _, err := l.in.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fscan(l.out, &turns, &longest, &percentile); err != nil {
		t.Fatal(err)
	}
	return turns, longest, percentile
}

// repeat does something again and again until stop is called.
func (l *lockWaits) repeat(t testing.TB, do func() error) (stop func()) {
	var over atomic.Bool
	done := make(chan error, 1)
	go func() {
		var err error
		for do != nil && err == nil && !over.Load() {
			err = do()
		}
		done <- err
	}()
	return func() {
		over.Store(true)
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
