package launch

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// tracee is a program under ptrace, from before its exec until there is
// nothing more to attach to.
type tracee struct {
	pid    int
	attach func(pid int) (bool, error)
	// As in Hooks; nil: no signal is for us.
	unknown func(tid int) (learn func())
	execed  bool
	inCall  bool // between the stops at the entry and the exit of a system call
}

// syscallStop is the signal of a system-call stop under PTRACE_O_TRACESYSGOOD.
const syscallStop = unix.SIGTRAP | 0x80

// run resumes the program from stop to stop. It returns with the program
// stopped: nil once attach is content.
func (t *tracee) run() error {
	for range maxStops {
		var status unix.WaitStatus
		if _, err := wait(t.pid, &status); err != nil {
			return fmt.Errorf("wait for process %d: %w", t.pid, err)
		}
		if status.Exited() || status.Signaled() {
			return ErrExited
		}
		done, signal, err := t.stopped(status)
		if err != nil {
			return err
		}
		if done {
			return nil
		}
		if err := t.resume(signal); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("resume process %d: %w", t.pid, err)
		}
	}
	return ErrNothingFound
}

// leave lets the program run on: free of ptrace, or watched until its end
// where hooks are given.
func (t *tracee) leave(hooks *Hooks) (*Watcher, error) {
	if hooks == nil || hooks.Stays != nil && !hooks.Stays(t.pid) {
		return nil, t.release()
	}
	w := newWatcher(*hooks)
	return w, w.begin(t.pid)
}

// wait is wait4 that leaves the end of the process to be waited for by others.
func wait(pid int, status *unix.WaitStatus) (int, error) {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT|unix.WALL, nil)
		if err == nil && info.Code != cldTrapped && info.Code != cldStopped {
			*status = 0 // exited
			return pid, nil
		}
		if err == nil {
			var n int
			n, err = unix.Wait4(pid, status, unix.WALL|unix.WUNTRACED, nil)
			if err == nil {
				return n, nil
			}
		}
		if !errors.Is(err, unix.EINTR) {
			return 0, err
		}
	}
}

// si_code of SIGCHLD; include/uapi/asm-generic/siginfo.h.
const (
	cldTrapped = 4
	cldStopped = 5
)

// stopped handles one stop: whether all is done, else the signal to pass on.
func (t *tracee) stopped(status unix.WaitStatus) (done bool, signal int, err error) {
	switch {
	case status.StopSignal() == unix.SIGTRAP && status.TrapCause() == unix.PTRACE_EVENT_EXEC:
		t.execed, t.inCall = true, true // the exec's own exit stop follows
		done, err = t.attach(t.pid)
		return done, 0, err
	case status.StopSignal() == syscallStop:
		t.inCall = !t.inCall
		if t.inCall || !t.execed {
			return false, 0, nil
		}
		mapped, err := mappedCode(t.pid)
		if err != nil || !mapped {
			return false, 0, err
		}
		done, err = t.attach(t.pid)
		return done, 0, err
	case status.TrapCause() > 0:
		return false, 0, nil // a group stop or another event
	case status.StopSignal() == unix.SIGURG && t.unknown != nil:
		if learn := t.unknown(t.pid); learn != nil {
			learn()
			return false, 0, nil
		}
	}
	return false, int(status.StopSignal()), nil
}

func (t *tracee) resume(signal int) error {
	if !t.execed {
		return unix.PtraceCont(t.pid, signal)
	}
	return unix.PtraceSyscall(t.pid, signal)
}

func (t *tracee) release() error {
	if err := unix.PtraceDetach(t.pid); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("let go of process %d: %w", t.pid, err)
	}
	return nil
}
