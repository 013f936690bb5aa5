package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/procfs/collect"
)

// looper is a child that maps, touches and unmaps 64 KiB as fast as it can,
// and counts in memory that it shares with this process.
type looper struct {
	cmd   *exec.Cmd
	count *atomic.Uint64
}

const loopBytes = 64 << 10

func startLooper() (*looper, error) {
	fd, err := unix.MemfdCreate("count", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "count")
	defer func() { _ = file.Close() }()
	if err := file.Truncate(4096); err != nil {
		return nil, err
	}
	count, err := sharedCount(fd)
	if err != nil {
		return nil, err
	}
	l := &looper{cmd: exec.Command("/proc/self/exe", "child", "loop"), count: count}
	l.cmd.ExtraFiles = []*os.File{file}
	l.cmd.Stderr = os.Stderr
	return l, l.cmd.Start()
}

func sharedCount(fd int) (*atomic.Uint64, error) {
	mem, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return (*atomic.Uint64)(unsafe.Pointer(&mem[0])), nil
}

// loop is the child.
func loop() error {
	count, err := sharedCount(3)
	if err != nil {
		return err
	}
	for {
		mem, err := unix.MmapPtr(-1, 0, nil, loopBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			return err
		}
		for at := 0; at < loopBytes; at += 4096 {
			*(*byte)(unsafe.Add(mem, at)) = 1
		}
		if err := unix.MunmapPtr(mem, loopBytes); err != nil {
			return err
		}
		count.Add(1)
	}
}

// during counts the loops of a second in which fn runs.
func (l *looper) during(fn func(until time.Time) error) (float64, error) {
	from, began := l.count.Load(), time.Now()
	if err := fn(began.Add(time.Second)); err != nil {
		return 0, err
	}
	time.Sleep(time.Until(began.Add(time.Second)))
	return float64(l.count.Load()-from) / time.Since(began).Seconds(), nil
}

// measureStall says what readers cost their target.
func measureStall(rounds int) (string, error) {
	l, err := startLooper()
	if err != nil {
		return "", err
	}
	defer func() { _ = l.cmd.Process.Kill(); _ = l.cmd.Wait() }()
	c, err := collect.Open(collect.Options{Budget: collect.DefaultBudget()})
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	ways := []struct {
		name string
		fn   func(until time.Time) error
	}{
		{"nobody reads", func(time.Time) error { return nil }},
		{"memtrace, live, once a second", func(time.Time) error { return collectAll(c) }},
		{"smaps_rollup, again and again", func(until time.Time) error { return readUntil(l.cmd.Process.Pid, until) }},
	}
	loops := make([][]float64, len(ways))
	ratios := make([][]float64, len(ways))
	for range rounds {
		for i, w := range ways {
			n, err := l.during(w.fn)
			if err != nil {
				return "", err
			}
			loops[i] = append(loops[i], n)
			ratios[i] = append(ratios[i], n/loops[0][len(loops[0])-1])
		}
	}
	var s strings.Builder
	s.WriteString("\n## What it costs a target that maps and unmaps 64 KiB in a loop\n\n| | loops a second | of those that nobody reads |\n|---|---:|---:|\n")
	if n := spread(loops[0]); n > noisy {
		return fmt.Sprintf("\nWhat reading costs a target that maps and unmaps in a loop was not to be told: its speed alone spread by %.0f %%.\n", 100*n), nil
	}
	for i, w := range ways {
		fmt.Fprintf(&s, "| %s | %.0f | %.1f %% |\n", w.name, median(loops[i]), 100*median(ratios[i]))
	}
	return s.String(), nil
}

func readUntil(pid int, until time.Time) error {
	buf := make([]byte, 4096)
	for time.Now().Before(until) {
		f, err := os.Open(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			return err
		}
		if _, err := f.Read(buf); err != nil && err != io.EOF {
			return err
		}
		_ = f.Close()
	}
	return nil
}
