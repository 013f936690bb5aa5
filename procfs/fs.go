//go:build linux && !viewer

package procfs

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// DefaultRoot is where the kernel's own proc file system is mounted.
const DefaultRoot = "/proc"

// FS is a proc file system, or a tree of files that looks like one.
type FS struct {
	root string
}

// New returns the FS at root, which must be a directory.
func New(root string) (FS, error) {
	info, err := os.Stat(root)
	if err != nil {
		return FS{}, fmt.Errorf("open proc file system: %w", err)
	}
	if !info.IsDir() {
		return FS{}, fmt.Errorf("open proc file system: %s is not a directory", root)
	}
	return FS{root: root}, nil
}

// Root returns the directory that fs reads.
func (fs FS) Root() string { return fs.root }

// Process opens the directory of a process. It fails with ErrGone where there
// is none. The caller closes the Process.
func (fs FS) Process(pid int) (*Process, error) {
	path := filepath.Join(fs.root, strconv.Itoa(pid))
	dir, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	switch {
	case err == nil:
		return &Process{pid: pid, dir: dir, thread: -1}, nil
	case err == unix.ENOENT || err == unix.ESRCH:
		return nil, fmt.Errorf("open process %d: no such process: %w", pid, ErrGone)
	default:
		return nil, fmt.Errorf("open process %d: open %s: %w", pid, path, err)
	}
}
