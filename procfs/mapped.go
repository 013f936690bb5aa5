//go:build linux && !viewer

package procfs

import (
	"bytes"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// OpenMapped opens the regular file behind a mapping for reading: the very one, by
// /proc/PID/map_files, which takes CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE; else by its path
// below the process's root, provided that this leads to the same file.
func (p *Process) OpenMapped(v *VMA) (*os.File, error) {
	name := fmt.Sprintf("map_files/%x-%x", v.Start, v.End)
	file, _, err := openRegularAt(p.memoryDir(), name)
	if err == nil {
		return file, nil
	}
	path := append([]byte("root"), v.Path...)
	if !bytes.HasPrefix(v.Path, []byte("/")) {
		return nil, p.wrap("open", name, err)
	}
	file, st, err := openRegularAt(p.memoryDir(), string(path))
	if err != nil {
		return nil, p.wrap("open", string(path), err)
	}
	if st.Ino != v.Inode || unix.Major(st.Dev) != v.DevMajor || unix.Minor(st.Dev) != v.DevMinor {
		_ = file.Close() // it was only opened
		return nil, fmt.Errorf("open %s: another file is mapped: %w", path, os.ErrNotExist)
	}
	return file, nil
}

// openRegularAt opens a file below a directory if it is a regular one. It looks before
// it opens: opening a device may have effects, opening a FIFO may never return.
func openRegularAt(dir int, name string) (*os.File, unix.Stat_t, error) {
	var st unix.Stat_t
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, st, err
	}
	defer func() { _ = unix.Close(fd) }() // a reference only: nothing can be lost
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return nil, st, err
	}
	if fs.Type == unix.FUSE_SUPER_MAGIC || fs.Type == unix.PROC_SUPER_MAGIC {
		return nil, st, unix.EINVAL // a process answers for it, or the kernel makes it up
	}
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, st, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, st, unix.EINVAL
	}
	// Who holds a lease on it (fcntl(2)) is not waited for: then this fails with EWOULDBLOCK.
	const flags = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC | unix.O_NOCTTY
	readable, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), flags, 0)
	if err != nil {
		return nil, st, err
	}
	return os.NewFile(uintptr(readable), name), st, nil
}
