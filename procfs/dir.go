//go:build linux && !viewer

package procfs

import (
	"encoding/binary"
	"fmt"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/procfs/internal/text"
)

// Dir is a proc file system that is held open: processes are listed and opened
// relative to it. PIDs is for one goroutine at a time; Process may be called
// concurrently.
type Dir struct {
	root    string
	fd      int
	genuine bool // the kernel's own, not a copy of its files
	buf     []byte
}

// Open holds fs's directory. The caller closes the Dir.
func (fs FS) Open() (*Dir, error) {
	fd, err := unix.Open(fs.root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open proc file system: open %s: %w", fs.root, err)
	}
	var at unix.Statfs_t
	err = unix.Fstatfs(fd, &at)
	return &Dir{root: fs.root, fd: fd, genuine: err == nil && at.Type == unix.PROC_SUPER_MAGIC, buf: make([]byte, direntBytes)}, nil
}

// direntBytes is how much of a directory is listed at once.
const direntBytes = 32 << 10

// Close lets go of the directory, not of processes that were opened from it.
func (d *Dir) Close() error { return unix.Close(d.fd) }

// maxPIDs bounds a listing: PID_MAX_LIMIT of the kernel.
const maxPIDs = 4 << 20

// PIDs appends the IDs of all processes to pids, ascending. Those that start
// or end meanwhile may be in it or not.
func (d *Dir) PIDs(pids []int) ([]int, error) {
	first := len(pids)
	if _, err := unix.Seek(d.fd, 0, unix.SEEK_SET); err != nil {
		return pids, fmt.Errorf("list %s: %w", d.root, err)
	}
	for {
		n, err := unix.Getdents(d.fd, d.buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return pids, fmt.Errorf("list %s: %w", d.root, err)
		}
		if n <= 0 || len(pids)-first > maxPIDs {
			break
		}
		pids = numericNames(d.buf[:n], pids)
	}
	if !slices.IsSorted(pids[first:]) { // the kernel's are
		slices.Sort(pids[first:])
	}
	return pids, nil
}

// Offsets into struct linux_dirent64: d_ino, d_off, d_reclen, d_type, d_name.
const (
	direntLength = 16
	direntName   = 19
)

// numericNames appends those names of a getdents64(2) buffer that are numbers.
func numericNames(buf []byte, to []int) []int {
	for len(buf) > direntName {
		length := int(binary.NativeEndian.Uint16(buf[direntLength:]))
		if length <= direntName || length > len(buf) {
			return to
		}
		name := buf[direntName:length]
		v, rest, ok := text.Decimal(name)
		if ok && v > 0 && v <= 1<<31-1 && len(rest) > 0 && rest[0] == 0 {
			to = append(to, int(v))
		}
		buf = buf[length:]
	}
	return to
}

// Process opens the directory of a process, as FS.Process does.
func (d *Dir) Process(pid int) (*Process, error) {
	var name [24]byte
	fd, err := unix.Openat(d.fd, pidName(&name, pid), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	switch {
	case err == nil:
		return &Process{pid: pid, dir: fd, thread: -1, genuine: d.genuine}, nil
	case err == unix.ENOENT || err == unix.ESRCH:
		return nil, fmt.Errorf("open process %d: no such process: %w", pid, ErrGone)
	default:
		return nil, fmt.Errorf("open process %d: in %s: %w", pid, d.root, err)
	}
}

// pidName writes a PID's name into buf.
func pidName(buf *[24]byte, pid int) string {
	i := len(buf)
	for v := uint(pid); i == len(buf) || v > 0; v /= 10 {
		i--
		buf[i] = byte('0' + v%10)
	}
	return unsafe.String(&buf[i], len(buf)-i)
}
