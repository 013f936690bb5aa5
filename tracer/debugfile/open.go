package debugfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// ErrNotRegular: a device, a FIFO or the like, which no program is mapped from.
var ErrNotRegular = errors.New("not a regular file")

// OpenRegular opens path without following what it must not touch: O_PATH
// neither wakes devices nor waits for the other end of a FIFO. The result is a
// descriptor of O_PATH of a regular file, with its stat. The error is an
// fs.PathError, of ErrNotRegular if it is another kind of file, ErrPseudo or
// ErrFUSE if it lies where nobody should read it.
func OpenRegular(path string) (int, unix.Stat_t, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	return checkRegular(fd, err, path)
}

// OpenRegularIn is OpenRegular for a path below the directory root, with
// symbolic links taken as a process with that root would (openat2, Linux 5.6).
func OpenRegularIn(root int, path string) (int, unix.Stat_t, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(root, path, &how)
	return checkRegular(fd, err, path)
}

func checkRegular(fd int, err error, path string) (int, unix.Stat_t, error) {
	var st unix.Stat_t
	if err != nil {
		return -1, st, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	// The file system first: one that a process answers for is not asked of the file.
	if err = checkFileSystem(fd); err == nil {
		err = unix.Fstat(fd, &st)
	}
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = ErrNotRegular
	}
	if err != nil {
		unix.Close(fd)
		return -1, st, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, st, nil
}

// Open is OpenRegular and Readable.
func Open(path string) (*os.File, error) {
	fd, _, err := OpenRegular(path)
	if err != nil {
		return nil, err
	}
	return Readable(fd, path)
}

// ErrLeased: another process holds a lease on the file (fcntl(2), F_SETLEASE).
// The kernel has asked it to let go, and makes it after 45 s by default.
var ErrLeased = errors.New("a process holds a lease on it")

// Refused reports whether an error of this package says of a file, which was there,
// that it is not to be read, or not now.
func Refused(err error) bool {
	for _, why := range []error{ErrNotRegular, ErrPseudo, ErrFUSE, ErrLeased, ErrOthersWrite} {
		if errors.Is(err, why) {
			return true
		}
	}
	return false
}

// Readable opens for reading the regular file behind a descriptor of O_PATH,
// which it closes.
func Readable(fd int, path string) (*os.File, error) {
	defer func() { _ = unix.Close(fd) }() // a reference only: nothing can be lost
	readable, err := Reopen(fd)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(readable), path), nil
}

// Reopen opens the regular file behind a descriptor of O_PATH for reading. It
// does not wait for who holds a lease on the file: the error is ErrLeased.
func Reopen(fd int) (int, error) {
	const flags = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC | unix.O_NOCTTY
	readable, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), flags, 0)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrLeased
	}
	return readable, err
}

// OpenRoot opens the root directory of a process, procPID being its directory
// in /proc, where it is another one than memtrace's own, as in a container; -1
// where it is the same or gone.
func OpenRoot(procPID string) int {
	fd, err := unix.Open(procPID+"/root", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	var own, theirs unix.Stat_t
	if unix.Stat("/", &own) != nil || unix.Fstat(fd, &theirs) != nil || own.Dev == theirs.Dev && own.Ino == theirs.Ino {
		unix.Close(fd)
		return -1
	}
	return fd
}
