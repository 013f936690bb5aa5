package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
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

// slice is what the target managed in a span: loops a second by the clock, and
// loops a second of its own processor time, in which others that want the
// processor do not count.
type slice struct{ clock, own float64 }

// during measures the loops of a span in which fn runs.
func (l *looper) during(span time.Duration, fn func(until time.Time) error) (slice, error) {
	pid := l.cmd.Process.Pid
	used, err := processTime(pid)
	if err != nil {
		return slice{}, err
	}
	from, began := l.count.Load(), time.Now()
	if err := fn(began.Add(span)); err != nil {
		return slice{}, err
	}
	time.Sleep(time.Until(began.Add(span)))
	loops, took := float64(l.count.Load()-from), time.Since(began)
	now, err := processTime(pid)
	return slice{loops / took.Seconds(), loops / (now - used).Seconds()}, err
}

// sliceTime is short, so that both slices of a pair meet the same neighbours,
// and long enough for memtrace top to refresh in each.
const sliceTime = time.Second

// measureStall says what readers cost their target: in pairs of slices, of
// which one is with the reader and one without, in turns.
func measureStall(program string, pairs int) (string, error) {
	target, err := startLooper()
	if err != nil {
		return "", err
	}
	defer func() { _ = target.cmd.Process.Kill(); _ = target.cmd.Wait() }()
	top, err := startLive(program)
	if err != nil {
		return "", err
	}
	defer top.stop()
	if err := top.signal(unix.SIGSTOP); err != nil {
		return "", err
	}
	alone := func(time.Time) error { return nil }
	watched := func(until time.Time) error {
		if err := top.signal(unix.SIGCONT); err != nil {
			return err
		}
		time.Sleep(time.Until(until))
		return top.signal(unix.SIGSTOP)
	}
	walked := func(until time.Time) error { return readUntil(target.cmd.Process.Pid, until) }
	var s strings.Builder
	fmt.Fprintf(&s, "\n## What it costs a target that maps and unmaps 64 KiB in a loop\n\n"+
		"The medians of %d pairs of a second with the reader and one without, in turns, and how far the middle half of them spreads; "+
		"of a quarter as many pairs where nobody reads or somebody reads all the time.\n\n"+
		"| | loops, by the clock | loops, by the target's own processor time |\n|---|---:|---:|\n", pairs)
	for _, w := range []struct {
		name  string
		fn    func(until time.Time) error
		pairs int // fewer where they are for comparison alone
	}{
		{"nobody reads, either time", alone, (pairs + 3) / 4},
		{"`memtrace top`, once a second", watched, pairs},
		{"smaps_rollup, again and again", walked, (pairs + 3) / 4},
	} {
		clock, own, err := target.pairs(w.pairs, w.fn, alone)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&s, "| %s | %s | %s |\n", w.name, changes(clock), changes(own))
	}
	return s.String(), nil
}

// pairs returns the ratios of loops with fn to those without, less one. Which
// of the two comes first takes turns.
func (l *looper) pairs(n int, with, without func(time.Time) error) (clock, own []float64, err error) {
	for i := range n {
		order := []func(time.Time) error{with, without}
		if i%2 == 1 {
			order[0], order[1] = without, with
		}
		var got [2]slice
		for j, fn := range order {
			if got[j], err = l.during(sliceTime, fn); err != nil {
				return nil, nil, err
			}
		}
		a, b := got[i%2], got[1-i%2]
		clock, own = append(clock, a.clock/b.clock-1), append(own, a.own/b.own-1)
	}
	return clock, own, nil
}

// changes is the median of changes and their middle half, in per cent.
func changes(values []float64) string {
	s := slices.Sorted(slices.Values(values))
	return fmt.Sprintf("%+.1f %% (%+.1f to %+.1f)", 100*median(s), 100*s[len(s)/4], 100*s[len(s)*3/4])
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
