// Package spent tells the processor time of a program from that of its children.
package spent

import (
	"errors"
	"fmt"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"
)

// Time is processor time in seconds: a process's own, and that of the
// children that it waited for.
type Time struct{ Own, Children float64 }

// All is the sum of both.
func (t Time) All() float64 { return t.Own + t.Children }

// Wait waits for a command and says what it took.
func Wait(cmd *exec.Cmd) (Time, error) {
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
		return Time{}, errors.Join(err, clockErr)
	}
	all := (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	return Time{own, max(0, all-own)}, errors.Join(err, clockErr)
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
