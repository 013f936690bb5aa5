package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// spent is processor time in seconds: a process's own, and that of the
// children that it waited for.
type spent struct{ own, children float64 }

func (s spent) all() float64 { return s.own + s.children }

// wait waits for a command and says what it took.
func wait(cmd *exec.Cmd) (spent, error) {
	// Its own clock can be read once it has ended, and before it is reaped.
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break // Wait says what is wrong
		}
	}
	own, clockErr := processTime(cmd.Process.Pid)
	err := cmd.Wait()
	if cmd.ProcessState == nil {
		return spent{}, errors.Join(err, clockErr)
	}
	all := (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	return spent{own, max(0, all-own)}, errors.Join(err, clockErr)
}

// processTime is the processor time of another process: its clock's ID is made
// of its PID (include/linux/posix-timers_types.h, CPUCLOCK_SCHED).
func processTime(pid int) (float64, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid)<<3|2, &t); err != nil {
		return 0, fmt.Errorf("read the processor time of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()).Seconds(), nil
}

// peaks watches how much memory processes have had resident at most.
type peaks struct {
	pids []int
	kB   []uint64
	stop chan struct{}
	done sync.WaitGroup
}

// peakPoll is how often it looks: what a process takes in its last moments
// may be missed.
const peakPoll = 10 * time.Millisecond

func watchPeaks(pids []int) *peaks {
	p := &peaks{pids: pids, kB: make([]uint64, len(pids)), stop: make(chan struct{})}
	p.done.Go(func() {
		tick := time.NewTicker(peakPoll)
		defer tick.Stop()
		for {
			for i, pid := range p.pids {
				p.kB[i] = max(p.kB[i], peakOf(pid))
			}
			select {
			case <-p.stop:
				return
			case <-tick.C:
			}
		}
	})
	return p
}

// sum ends the watch.
func (p *peaks) sum() (kB uint64) {
	close(p.stop)
	p.done.Wait()
	for _, n := range p.kB {
		kB += n
	}
	return kB
}

// peakOf is VmHWM in kB, or 0 where the process has ended.
func peakOf(pid int) uint64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kB, _ := strconv.ParseUint(strings.Fields(rest)[0], 10, 64)
			return kB
		}
	}
	return 0
}
