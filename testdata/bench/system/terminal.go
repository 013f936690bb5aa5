package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// live is memtrace top, as people run it: on a terminal of 80 × 24, refreshing
// once a second.
type live struct {
	cmd    *exec.Cmd
	master *os.File
}

// startLive starts it and lets it settle: its first reading is of everything,
// and of what that begins the stall budget takes a while to catch up with.
func startLive(program string) (*live, error) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	terminal, err := openTerminal(int(master.Fd()))
	if err != nil {
		return nil, fmt.Errorf("open a terminal: %w", err)
	}
	defer func() { _ = terminal.Close() }()
	cmd := exec.Command(program, "top", "-i", "1s")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
	cmd.Env = append(os.Environ(), "TERM=xterm-256color", "LC_ALL=C.UTF-8")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	l := &live{cmd, master}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	drawn := make(chan bool, 1)
	go watchFor(master, "COMMAND", drawn)
	select {
	case ok := <-drawn:
		if ok {
			time.Sleep(5 * time.Second)
			return l, nil
		}
	case <-time.After(30 * time.Second):
	}
	l.stop()
	return nil, fmt.Errorf("%s top never drew its table", program)
}

// openTerminal opens the terminal that belongs to a master, 80 × 24.
func openTerminal(master int) (*os.File, error) {
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return nil, err
	}
	n, err := unix.IoctlGetInt(master, unix.TIOCGPTN)
	if err != nil {
		return nil, err
	}
	if err := unix.IoctlSetWinsize(master, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}); err != nil {
		return nil, err
	}
	return os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
}

// watchFor takes what is drawn off the terminal, and tells once whether a word
// came.
func watchFor(master io.Reader, word string, drawn chan<- bool) {
	buf := make([]byte, 64<<10)
	var seen strings.Builder
	for {
		n, err := master.Read(buf)
		if seen.Len() < 1<<20 {
			seen.Write(buf[:n])
		}
		if err != nil || strings.Contains(seen.String(), word) {
			drawn <- err == nil
			_, _ = io.Copy(io.Discard, master)
			return
		}
	}
}

func (l *live) stop() {
	_ = l.cmd.Process.Kill()
	_ = l.cmd.Wait()
	_ = l.master.Close()
}

func (l *live) signal(s syscall.Signal) error { return l.cmd.Process.Signal(s) }

// processTime is the processor time of another process: its clock's ID is made
// of its PID (include/linux/posix-timers_types.h, CPUCLOCK_SCHED).
func processTime(pid int) (time.Duration, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid)<<3|2, &t); err != nil {
		return 0, fmt.Errorf("processor time of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}

// liveShare is what memtrace top takes of a processor: the median of so many
// spans of two seconds, in which it refreshes twice.
func liveShare(program string, spans int) (float64, error) {
	l, err := startLive(program)
	if err != nil {
		return 0, err
	}
	defer l.stop()
	var shares []float64
	for range spans {
		began := time.Now()
		before, err := processTime(l.cmd.Process.Pid)
		if err != nil {
			return 0, err
		}
		time.Sleep(2 * time.Second)
		after, err := processTime(l.cmd.Process.Pid)
		if err != nil {
			return 0, err
		}
		shares = append(shares, float64(after-before)/float64(time.Since(began)))
	}
	return median(shares), nil
}
