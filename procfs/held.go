//go:build linux && !viewer

package procfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Held is a process that is held by a pidfd as well: its end can be waited
// for, and neither its files nor its end can be those of another process.
type Held struct {
	*Process
	StartTime uint64 // clock ticks since boot, as Stat.StartTime
	pidfd     *os.File
	fd        int // pidfd's: File.Fd would make it blocking
}

// Hold opens a running process of this PID namespace. It fails with ErrGone
// where there is none, or a zombie. fs must be the kernel's own. The caller
// closes the Held.
func (fs FS) Hold(pid int) (*Held, error) {
	pidfd, err := OpenPidfd(pid)
	if err != nil {
		return nil, err
	}
	h, err := fs.hold(pid, pidfd)
	if err != nil {
		_ = pidfd.Close()
		return nil, err
	}
	return h, nil
}

// hold opens the directory after the pidfd and then asks the pidfd whether
// the process still runs: if so, both are of one process.
func (fs FS) hold(pid int, pidfd *os.File) (*Held, error) {
	p, err := fs.Process(pid)
	if err != nil {
		return nil, err
	}
	st, err := p.Stat()
	h := &Held{Process: p, StartTime: st.StartTime, pidfd: pidfd, fd: -1}
	if err == nil {
		err = h.control(func(fd uintptr) { h.fd = int(fd) })
	}
	if err == nil && !h.Alive() {
		err = fmt.Errorf("hold process %d: %w", pid, ErrGone)
	}
	if err != nil {
		_ = p.Close()
		return nil, err
	}
	return h, nil
}

// OpenPidfd returns a descriptor of a process (pidfd_open(2), Linux 5.3). It
// becomes readable when the process ends. ErrGone: there is no such process.
// A thread that leads no process is EINVAL, or ENOENT since Linux 6.9.
func OpenPidfd(pid int) (*os.File, error) {
	if pid <= 0 {
		return nil, fmt.Errorf("open pidfd of process %d: no such process: %w", pid, ErrGone)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	switch {
	case err == unix.ESRCH:
		return nil, fmt.Errorf("open pidfd of process %d: no such process: %w", pid, ErrGone)
	case err == unix.ENOSYS:
		return nil, fmt.Errorf("open pidfd of process %d: %w: needs Linux 5.3", pid, ErrNotSupported)
	case err != nil:
		return nil, fmt.Errorf("open pidfd of process %d: %w: is it a thread rather than a process?", pid, err)
	}
	// Non-blocking, so that Go's poller waits for it and no thread is held up.
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("open pidfd of process %d: set non-blocking: %w", pid, err)
	}
	return os.NewFile(uintptr(fd), fmt.Sprintf("pidfd of %d", pid)), nil
}

// Pidfd returns the descriptor for use in system calls; h must outlive them.
func (h *Held) Pidfd() int { return h.fd }

// Alive reports whether the process still runs. A zombie doesn't.
func (h *Held) Alive() bool {
	alive := false
	err := h.control(func(fd uintptr) { alive = !ended(fd) })
	return err == nil && alive
}

// control calls fn with the pidfd, which stays open meanwhile.
func (h *Held) control(fn func(fd uintptr)) error {
	conn, err := h.pidfd.SyscallConn()
	if err == nil {
		err = conn.Control(fn)
	}
	if err != nil {
		return fmt.Errorf("use pidfd of process %d: %w", h.pid, err)
	}
	return nil
}

// ended polls a pidfd without waiting.
func ended(fd uintptr) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, 0)
		if err != unix.EINTR {
			return err == nil && n > 0
		}
	}
}

// Wait returns nil when the process has ended, or the cause that ctx was
// cancelled for. Only one goroutine may be in Wait.
func (h *Held) Wait(ctx context.Context) error {
	conn, err := h.pidfd.SyscallConn()
	if err != nil {
		return fmt.Errorf("wait for process %d: %w", h.pid, err)
	}
	if err := h.pidfd.SetReadDeadline(time.Time{}); err != nil {
		return fmt.Errorf("wait for process %d: %w", h.pid, err)
	}
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(woken)
		_ = h.pidfd.SetReadDeadline(time.Unix(1, 0))
	})
	err = conn.Read(ended)
	if !stop() {
		<-woken // lest it should cut short a later Wait
	}
	if errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("wait for process %d: %w", h.pid, err)
	}
	return nil
}

// Close lets go of the process.
func (h *Held) Close() error {
	return errors.Join(h.pidfd.Close(), h.Process.Close())
}
