package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/memtrace/memtrace/analyzer/reach"
	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/testdata/bench/figures"
)

// lockRun is what a program that maps, touches and unmaps memory all the time
// (testdata/programs/lock_waits.c) waits for its mmap lock, beside a reader.
type lockRun struct {
	Machine, Load string
	MiB           int           // of its heap
	Readings      int           // that came to their end meanwhile
	Turns         float64       // of the program, a second
	Usual         time.Duration // for which it was blocked: the 99.9th percentile of turns, median of all seconds
	Longest       time.Duration // the worst turn of a second, median of all seconds
	Worst         time.Duration // the worst of all
	LongestCall   time.Duration // of the scans, by their own account
}

// lockSeconds is for how long each reader is measured.
const lockSeconds = 20

// A lockReader reads a process once and says what its longest call was.
type lockReader struct {
	name string
	read func(p *procfs.Process, list []byte) (time.Duration, error)
}

var lockReaders = []lockReader{
	{"alone", nil},
	{"scanned", func(p *procfs.Process, list []byte) (time.Duration, error) {
		r, err := reach.Scan(p, listed(list), reach.Options{AllSeen: true, Workers: 1})
		return r.LongestStep, err
	}},
	{"smaps_rollup", func(p *procfs.Process, _ []byte) (time.Duration, error) {
		_, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", p.PID()))
		return 0, err
	}},
}

// lockProgram is the program that waits.
type lockProgram struct {
	process *procfs.Process
	list    []byte
	in      io.Writer
	out     *bufio.Reader
	end     func()
}

func (s *settings) lockProgram() (l *lockProgram, err error) {
	list, err := os.CreateTemp("", "memtrace-bench")
	if err != nil {
		return nil, err
	}
	defer os.Remove(list.Name())
	defer list.Close()
	cmd := exec.Command(filepath.Join(s.programs, "lock_waits"), strconv.Itoa(s.lockHeap()), list.Name())
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	l = &lockProgram{in: in, out: bufio.NewReader(out), end: func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }}
	if _, err = fmt.Fscanf(l.out, "ready 0 0\n"); err == nil {
		l.list, err = os.ReadFile(list.Name())
	}
	if err == nil {
		l.process, err = openProcess(cmd.Process.Pid)
	}
	if err != nil {
		l.end()
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return l, nil
}

// lockHeap is the size of that program's heap in MiB: enough to be read for a second.
func (s *settings) lockHeap() int { return min(s.heap, 1024) }

// lockWaits measures all readers.
func (s *settings) lockWaits() (map[string]lockRun, error) {
	l, err := s.lockProgram()
	if err != nil {
		return nil, err
	}
	defer l.end()
	defer l.process.Close()
	runs := make(map[string]lockRun)
	for _, r := range lockReaders {
		run, err := l.beside(r)
		if err != nil {
			return nil, fmt.Errorf("measure waits for the mmap lock, %s: %w", r.name, err)
		}
		run.MiB = s.lockHeap()
		runs[r.name] = run
	}
	return runs, nil
}

// beside has the program run for a second at a time while it is read.
func (l *lockProgram) beside(r lockReader) (run lockRun, err error) {
	run.Machine, run.Load = figures.Machine(), figures.Load()
	over, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- l.readUntil(r, over, &run) }()
	var turns, usual, longest []float64
	for range lockSeconds {
		var n, worst, percentile float64
		if _, err = l.in.Write([]byte("\n")); err != nil {
			break
		}
		if _, err = fmt.Fscan(l.out, &n, &worst, &percentile); err != nil {
			break
		}
		turns, longest, usual = append(turns, n), append(longest, worst), append(usual, percentile)
	}
	close(over)
	if failed := <-done; err == nil {
		err = failed
	}
	if err == nil {
		run.Turns, run.Usual = figures.Median(turns), time.Duration(figures.Median(usual))
		run.Longest, run.Worst = time.Duration(figures.Median(longest)), time.Duration(figures.Quantile(longest, 1))
	}
	return run, err
}

func (l *lockProgram) readUntil(r lockReader, over chan struct{}, run *lockRun) error {
	for r.read != nil {
		select {
		case <-over:
			return nil
		default:
		}
		longest, err := r.read(l.process, l.list)
		if err != nil {
			return err
		}
		run.Readings++
		run.LongestCall = max(run.LongestCall, longest)
	}
	return nil
}
