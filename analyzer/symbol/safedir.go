package symbol

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLinks bounds the symbolic links followed on the way to a directory.
const maxLinks = 16

// openPrivateDir opens directory path and creates what of it is missing, mode
// 0700. On the way there nobody but root and the user that memtrace runs as
// may own a directory or a symbolic link, or be able to put one there; so a
// privileged memtrace is not led to write where others chose. The result is a
// descriptor.
func openPrivateDir(path string) (int, error) {
	if !filepath.IsAbs(path) {
		return -1, fmt.Errorf("open directory %q: not an absolute path", path)
	}
	at, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open /: %w", err)
	}
	rest := strings.Split(strings.Trim(filepath.Clean(path), "/"), "/")
	for links := 0; len(rest) > 0; {
		next, target, err := stepInto(at, rest[0])
		if err == nil && target != "" {
			if links++; links > maxLinks {
				err = unix.ELOOP
			}
		}
		if err != nil {
			unix.Close(at)
			return -1, fmt.Errorf("open directory %s, at %q: %w", path, rest[0], err)
		}
		rest = rest[1:]
		if target == "" {
			unix.Close(at)
			at = next
			continue
		}
		// ".." in a link is safe: all parents were found fit already.
		if filepath.IsAbs(target) {
			unix.Close(at)
			if at, err = unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
				return -1, fmt.Errorf("open /: %w", err)
			}
		}
		rest = append(strings.FieldsFunc(target, func(r rune) bool { return r == '/' }), rest...)
	}
	defer unix.Close(at)
	return readableDir(at, path)
}

// readableDir turns a descriptor of O_PATH into one to read, for a directory
// that is our own.
func readableDir(at int, path string) (int, error) {
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil {
		return -1, fmt.Errorf("stat directory %s: %w", path, err)
	}
	if st.Uid != uint32(unix.Geteuid()) {
		return -1, fmt.Errorf("open directory %s: it belongs to user %d", path, st.Uid)
	}
	if st.Mode&0o022 != 0 {
		return -1, fmt.Errorf("open directory %s: others may write to it (mode %#o)", path, st.Mode&0o7777)
	}
	fd, err := unix.Openat(at, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open directory %s: %w", path, err)
	}
	return fd, nil
}

// stepInto opens the directory name in directory at, or returns the target of
// the symbolic link there.
func stepInto(at int, name string) (fd int, target string, err error) {
	fd, err = unix.Openat(at, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		if err = unix.Mkdirat(at, name, 0o700); err == nil || errors.Is(err, unix.EEXIST) {
			fd, err = unix.Openat(at, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		}
	}
	if err != nil {
		return -1, "", err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil {
		target, err = fitStep(fd, &st)
	}
	if err != nil || target != "" {
		unix.Close(fd)
		fd = -1
	}
	return fd, target, err
}

// fitStep tells whether a directory or link may be gone through, and where a
// link leads.
func fitStep(fd int, st *unix.Stat_t) (target string, err error) {
	if st.Uid != 0 && st.Uid != uint32(unix.Geteuid()) {
		return "", fmt.Errorf("it belongs to user %d", st.Uid)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		var buf [unix.PathMax]byte
		n, err := unix.Readlinkat(fd, "", buf[:])
		return string(buf[:max(0, n)]), err
	case unix.S_IFDIR:
		// In a sticky directory, as /tmp, others can't replace what is ours.
		if st.Mode&0o022 != 0 && st.Mode&unix.S_ISVTX == 0 {
			return "", fmt.Errorf("others may write to it (mode %#o)", st.Mode&0o7777)
		}
		return "", nil
	}
	return "", unix.ENOTDIR
}
