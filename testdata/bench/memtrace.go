package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// report is what the benchmark reads of memtrace's Report.
type report struct {
	Final  bool
	Events struct{ Alloc, Free, Lost uint64 }
}

// memtrace under measurement.
type memtrace struct {
	cmd  *exec.Cmd
	out  *bufio.Reader
	last report
}

// startMemtrace returns once memtrace is attached: its first Report says so.
func startMemtrace(path string, pid int, args []string) (*memtrace, error) {
	m := &memtrace{cmd: exec.Command(path, append([]string{"-p", strconv.Itoa(pid), "--format", "json", "--top", "1"}, args...)...)}
	m.cmd.Stderr = os.Stderr
	out, err := m.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := m.cmd.Start(); err != nil {
		return nil, err
	}
	m.out = bufio.NewReaderSize(out, 1<<20)
	if err := m.read(); err != nil {
		return nil, errors.Join(fmt.Errorf("memtrace has not attached: %w", err), m.cmd.Wait())
	}
	return m, nil
}

// read reads the next Report.
func (m *memtrace) read() error {
	line, err := m.out.ReadBytes('\n')
	if err != nil {
		return err
	}
	return json.Unmarshal(line, &m.last)
}

// stop ends memtrace as Ctrl-C does. Lost events make the measurement void.
func (m *memtrace) stop() error {
	if err := m.cmd.Process.Signal(unix.SIGINT); err != nil {
		return err
	}
	for !m.last.Final {
		if err := m.read(); err != nil {
			return fmt.Errorf("read memtrace's last Report: %w", err)
		}
	}
	_, _ = io.Copy(io.Discard, m.out)
	if err := m.cmd.Wait(); err != nil {
		return err
	}
	if m.last.Events.Lost > 0 {
		return fmt.Errorf("memtrace lost %d of %d events", m.last.Events.Lost, m.last.Events.Alloc+m.last.Events.Free)
	}
	return nil
}

// peakMemory is the most that memtrace ever had resident, in kB.
func (m *memtrace) peakMemory() (uint64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			return strconv.ParseUint(strings.Fields(rest)[0], 10, 64)
		}
	}
	return 0, errors.New("no VmHWM in memtrace's status")
}

// fullRun is a long trace at the loop's full speed.
type fullRun struct {
	threads  int
	seconds  float64
	calls    uint64 // of malloc and free, by the loop's count
	seen     uint64 // by memtrace's
	lost     uint64
	cpuEvent float64 // ns of memtrace's own processor time, for each event
	cpuShare float64 // processors that memtrace kept busy
	memory   uint64  // kB
}

func (s *settings) fullSpeed(threads int) (*fullRun, error) {
	p, err := startLoop(nil, filepath.Join(s.programs, "churn"), loopShape{depth: depth, threads: threads, span: s.full})
	if err != nil {
		return nil, err
	}
	defer p.kill()
	m, err := startMemtrace(s.memtrace, p.pid, slices.Concat([]string{"--unwind", "fp"}, s.more))
	if err != nil {
		return nil, err
	}
	// The Reports of each second must be read for memtrace to go on.
	before, err := cpuTime(m.cmd.Process.Pid)
	if err != nil {
		return nil, err
	}
	type outcome struct {
		a   answer
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		a, _, err := p.run()
		done <- outcome{a, err}
	}()
	var o outcome
	for reading := true; reading; {
		if err := m.read(); err != nil {
			return nil, err
		}
		select {
		case o = <-done:
			reading = false
		default:
		}
	}
	if o.err != nil {
		return nil, o.err
	}
	return m.account(threads, o.a, before)
}

// account sums up a full run.
func (m *memtrace) account(threads int, a answer, before int64) (*fullRun, error) {
	after, err := cpuTime(m.cmd.Process.Pid)
	if err != nil {
		return nil, err
	}
	memory, err := m.peakMemory()
	if err != nil {
		return nil, err
	}
	err = m.stop()
	if err != nil && m.last.Events.Lost == 0 {
		return nil, err
	}
	calls := a.Total.Alloc + a.Total.Free
	return &fullRun{
		threads: threads, seconds: a.ElapsedNS / 1e9, calls: calls,
		seen: m.last.Events.Alloc + m.last.Events.Free, lost: m.last.Events.Lost,
		cpuEvent: float64(after-before) / float64(calls), cpuShare: float64(after-before) / a.ElapsedNS,
		memory: memory,
	}, nil
}
