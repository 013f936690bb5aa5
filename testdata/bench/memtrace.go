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
	Final    bool
	Events   struct{ Alloc, Free, Lost uint64 }
	Pressure *struct {
		Phases  int
		LeftOut struct{ Alloc, Free uint64 } `json:"left_out"`
	}
	Sites []struct {
		Function   string
		LiveCount  uint64 `json:"live_count"`
		AllocCount uint64 `json:"alloc_count"`
		FreeCount  uint64 `json:"free_count"`
	}
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
func (m *memtrace) peakMemory() (uint64, error) { return m.status("VmHWM:") }

// status reads a figure in kB from memtrace's status.
func (m *memtrace) status(name string) (uint64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			return strconv.ParseUint(strings.Fields(rest)[0], 10, 64)
		}
	}
	return 0, fmt.Errorf("no %s in memtrace's status", name)
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
	before, err := cpuTime(m.cmd.Process.Pid)
	if err != nil {
		return nil, err
	}
	a, err := m.follow(p, func() error { return nil })
	if err != nil {
		return nil, err
	}
	return m.account(threads, a, before)
}

// follow lets the loop run, reads the Reports meanwhile, as memtrace would not
// go on else, and calls each after every one.
func (m *memtrace) follow(p *loop, each func() error) (answer, error) {
	type outcome struct {
		a   answer
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		a, _, err := p.run()
		done <- outcome{a, err}
	}()
	for {
		if err := errors.Join(m.read(), each()); err != nil {
			return answer{}, err
		}
		select {
		case o := <-done:
			return o.a, o.err
		default:
		}
	}
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
