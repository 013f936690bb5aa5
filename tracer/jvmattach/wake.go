//go:build linux && !viewer

package jvmattach

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// pollEvery is how often it is looked whether a JVM has begun to listen.
const pollEvery = 20 * time.Millisecond

var (
	// ErrNotListening: the JVM was sent SIGQUIT and has not begun to listen yet. It is not sent another: ask again
	// later.
	ErrNotListening = errors.New("it was sent SIGQUIT and does not listen yet. A file .attach_pidN stays in its /tmp " +
		"until it does: a JVM that takes the signal and finds none prints its threads")
	// errSilent: a JVM that listened has stopped to.
	errSilent = errors.New("it listened before and no longer does: .java_pidN in its /tmp is gone, or unanswered")
	// errNoHandler: SIGQUIT would end the process.
	errNoHandler = errors.New("it has no handler for SIGQUIT: it was started with -Xrs, or is starting or ending")
	// ErrStopped: a signal would wait until it goes on. Ask again later.
	ErrStopped = errors.New("it is stopped")
	// errNotItsOwn: the process could have us create a file where it can't itself.
	errNotItsOwn = errors.New("its /tmp is a directory that its user can't write to")
)

// A Wake is how far one program of one process was asked to listen. It is for one question at a time; the zero value
// is of one that was not asked.
//
// A JVM that gets SIGQUIT and finds no file .attach_pidN prints its threads. So SIGQUIT is sent once, and the file
// stays until the JVM listens, or has ended: it may be stopped, or busy, for longer than anybody waits.
type Wake struct {
	sent bool
	file *attachFile // nil: there is none
}

// An attachFile is the file that asks a JVM to listen.
type attachFile struct {
	dir  int // a descriptor of O_PATH
	name string
	dev  uint64
	ino  uint64
}

// Waits reports whether a JVM was sent SIGQUIT and has not begun to listen, so that the file that asks for that is
// still there.
func (w *Wake) Waits() bool { return w.file != nil }

// Remove removes the file, if there is one. That is for a program that has ended: a running one may print its threads.
func (w *Wake) Remove() {
	if w.file != nil {
		w.file.remove()
		w.file = nil
	}
}

// Leave lets go of the file, if there is one, and leaves it for a program that goes on.
func (w *Wake) Leave() {
	if w.file != nil {
		_ = unix.Close(w.file.dir) // a reference only: nothing can be lost
		w.file = nil
	}
}

// remove removes the file, but not another of its name: a jcmd's, by now.
func (f *attachFile) remove() {
	var st unix.Stat_t
	if unix.Fstatat(f.dir, f.name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Dev == f.dev && st.Ino == f.ino {
		_ = unix.Unlinkat(f.dir, f.name, 0)
	}
	_ = unix.Close(f.dir)
}

// listening connects to the JVM, which is made to listen if it doesn't.
func (j *jvm) listening(ctx context.Context, w *Wake) (*net.UnixConn, error) {
	conn, err := j.connect(ctx)
	switch {
	case err == nil:
		w.Remove() // it has found it
		return conn, nil
	case !isDeaf(err):
		return nil, err
	case w.Waits():
		return nil, ErrNotListening
	case w.sent:
		return nil, errSilent
	}
	return j.wake(ctx, w)
}

// isDeaf reports whether a failure to connect says that nobody listens.
func isDeaf(err error) bool { return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ECONNREFUSED) }

// wake has a JVM begin to listen, and connects to it.
func (j *jvm) wake(ctx context.Context, w *Wake) (*net.UnixConn, error) {
	var err error
	if w.file, err = j.createAttachFile(); err != nil {
		return nil, err
	}
	if err := j.quit(); err != nil {
		w.Remove()
		return nil, err
	}
	w.sent = true
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		conn, err := j.connect(ctx)
		if err == nil {
			w.Remove()
		}
		if err == nil || !isDeaf(err) && ctx.Err() == nil {
			return conn, err
		}
		select {
		case <-ctx.Done():
			return nil, ErrNotListening
		case <-tick.C:
		}
	}
}

// createAttachFile creates the file that asks a JVM to listen. No file of the target's is followed, opened or
// overwritten for that.
func (j *jvm) createAttachFile() (*attachFile, error) {
	if err := j.mayCreate(); err != nil {
		return nil, err
	}
	name := ".attach_pid" + strconv.Itoa(j.inner)
	fd, err := unix.Openat(j.tmp, name, unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if errors.Is(err, unix.EEXIST) {
		return nil, fmt.Errorf("/tmp/%s is there: another program is attaching to it. Remove the file if none is: %w",
			name, err)
	}
	if err != nil {
		return nil, fmt.Errorf("create /tmp/%s in its root: %w", name, err)
	}
	defer func() { _ = unix.Close(fd) }()
	f := &attachFile{dir: -1, name: name}
	if f.dir, err = unix.FcntlInt(uintptr(j.tmp), unix.F_DUPFD_CLOEXEC, 0); err != nil {
		_ = unix.Unlinkat(j.tmp, name, 0)
		return nil, fmt.Errorf("keep its /tmp open: %w", err)
	}
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	f.dev, f.ino = st.Dev, st.Ino
	if err == nil {
		err = unix.Fchown(fd, int(j.uid), int(j.gid))
	}
	if err != nil {
		f.remove()
		return nil, fmt.Errorf("give /tmp/%s to its user: %w", name, err)
	}
	return f, nil
}

// mayCreate makes sure that the target's user may create files in its /tmp. The target chooses what that is, by a
// mount or a link in a root of its own, and memtrace may write everywhere. Access control lists and groups beside the
// first are not asked: they give less than needed, never more.
func (j *jvm) mayCreate() error {
	var st unix.Stat_t
	if err := unix.Fstat(j.tmp, &st); err != nil {
		return fmt.Errorf("stat its /tmp: %w", err)
	}
	may := st.Mode & 0o003
	switch {
	case st.Uid == j.uid:
		may = st.Mode >> 6 & 0o003
	case st.Gid == j.gid:
		may = st.Mode >> 3 & 0o003
	}
	if may != 0o003 {
		return errNotItsOwn
	}
	return nil
}

// quit sends SIGQUIT to a process that has a handler for it.
func (j *jvm) quit() error {
	status, err := j.process.Status()
	if err != nil {
		return err
	}
	switch {
	case status.Caught&(1<<(unix.SIGQUIT-1)) == 0:
		return errNoHandler
	case status.State == 'T' || status.State == 't':
		return ErrStopped
	}
	if err := unix.PidfdSendSignal(j.process.Pidfd(), unix.SIGQUIT, nil, 0); err != nil {
		return fmt.Errorf("send SIGQUIT: %w", err)
	}
	return nil
}
