package debugfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrOthersWrite: somebody else could have written a file, or put it there.
var ErrOthersWrite = errors.New("others could have written it")

// maxLinks bounds the symbolic links followed on the way to a file.
const maxLinks = 16

// madeUp are the directories where no debug file is.
var madeUp = []string{"proc", "sys", "dev"}

// OpenTrusted is OpenRegular for a file of which nobody but root, the user that
// memtrace runs as, and the given owners can have written the content, or put it in
// its place: these own the file and all directories and symbolic links on the way, and
// others may write to none of them, but to sticky directories. What belongs to others
// is ErrOthersWrite. It opens nothing in /proc, /sys and /dev.
func OpenTrusted(name string, owners ...uint32) (int, unix.Stat_t, error) {
	w := walk{owners: owners}
	fd, err := w.to(name)
	if errors.Is(err, ErrOthersWrite) { // which may be a directory: is there a file at all?
		there, _, none := OpenOwn(name)
		if none != nil {
			return -1, unix.Stat_t{}, none
		}
		unix.Close(there)
	}
	return checkRegular(fd, err, name)
}

// OpenOwn is OpenRegular for a path that a target's file names: it opens nothing in
// /proc, /sys and /dev, nor where a link of a process leads to.
func OpenOwn(name string) (int, unix.Stat_t, error) {
	if err := namesFile(name); err != nil {
		return checkRegular(-1, err, name)
	}
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(unix.AT_FDCWD, path.Clean(name), &how)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) { // before Linux 5.6, or a filter of system calls
		return OpenRegular(path.Clean(name))
	}
	return checkRegular(fd, err, name)
}

// OpenOwnIn is OpenOwn below another root directory.
func OpenOwnIn(root int, name string) (int, unix.Stat_t, error) {
	if err := namesFile(name); err != nil {
		return checkRegular(-1, err, name)
	}
	return OpenRegularIn(root, name)
}

// namesFile says why a path is not tried.
func namesFile(name string) error {
	first, _, _ := strings.Cut(strings.TrimLeft(path.Clean(name), "/"), "/")
	switch {
	case !path.IsAbs(name):
		return fs.ErrInvalid
	case slices.Contains(madeUp, first):
		return ErrPseudo
	}
	return nil
}

// walk goes down a path step by step.
type walk struct {
	owners []uint32
	links  int
}

// to returns a descriptor of O_PATH of what the path leads to.
func (w *walk) to(name string) (int, error) {
	if !path.IsAbs(name) {
		return -1, fs.ErrInvalid
	}
	at, err := openRoot()
	if err != nil {
		return -1, err
	}
	top := true
	for rest := steps(name); len(rest) > 0; {
		if top && slices.Contains(madeUp, rest[0]) {
			err = ErrPseudo
		}
		next, target := -1, ""
		if err == nil {
			next, target, err = w.into(at, rest[0])
		}
		if err == nil && (next >= 0 || path.IsAbs(target)) {
			unix.Close(at)
			at = next
		}
		if err == nil && path.IsAbs(target) {
			at, err = openRoot()
		}
		if err != nil {
			if at >= 0 {
				unix.Close(at)
			}
			return -1, err
		}
		top = path.IsAbs(target) || target != "" && top
		rest = append(steps(target), rest[1:]...)
	}
	return at, nil
}

func openRoot() (int, error) {
	return unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}

func steps(name string) []string {
	return slices.DeleteFunc(strings.Split(name, "/"), func(s string) bool { return s == "" || s == "." })
}

// into opens what is called name in directory at, or returns where the symbolic link
// there leads.
func (w *walk) into(at int, name string) (fd int, target string, err error) {
	if fd, err = unix.Openat(at, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err != nil {
		return -1, "", err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil {
		err = w.fit(&st)
	}
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFLNK {
		return fd, "", nil
	}
	defer unix.Close(fd)
	if err != nil {
		return -1, "", fmt.Errorf("%w (at %q)", err, name)
	}
	if w.links++; w.links > maxLinks {
		return -1, "", unix.ELOOP
	}
	var buf [unix.PathMax]byte
	n, err := unix.Readlinkat(fd, "", buf[:])
	if err == nil && n == 0 {
		err = unix.ENOENT
	}
	return -1, string(buf[:max(0, n)]), err
}

func (w *walk) fit(st *unix.Stat_t) error {
	if !Owned(st.Uid, w.owners...) {
		return fmt.Errorf("%w: user %d owns it", ErrOthersWrite, st.Uid)
	}
	kind := st.Mode & unix.S_IFMT
	// In a sticky directory, as /tmp, others can't replace what is not theirs.
	sticky := kind == unix.S_IFDIR && st.Mode&unix.S_ISVTX != 0
	if kind != unix.S_IFLNK && st.Mode&0o022 != 0 && !sticky {
		return fmt.Errorf("%w: its mode is %#o", ErrOthersWrite, st.Mode&0o7777)
	}
	return nil
}

// Owned reports whether a user is root, the one that memtrace runs as, or one of the owners.
func Owned(uid uint32, owners ...uint32) bool {
	return uid == 0 || uid == uint32(os.Geteuid()) || slices.Contains(owners, uid)
}

// LeadsTo reports whether a path leads to a file in memtrace's own root, too. Where that
// is so, the kernel knows the way already (RESOLVE_CACHED, Linux 5.12), and need not mount
// anything to find it; only where it can't tell, it looks.
func LeadsTo(name string, device, inode uint64) bool {
	const resolveCached = 0x20 // RESOLVE_CACHED, include/uapi/linux/openat2.h
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS | resolveCached}
	fd, err := unix.Openat2(unix.AT_FDCWD, name, &how)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		fd, _, err = OpenOwn(name)
	}
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Dev == device && st.Ino == inode
}
