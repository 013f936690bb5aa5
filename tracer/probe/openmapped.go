package probe

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/tracer/debugfile"
)

// openMapped opens the very file that is mapped at m: through
// /proc/PID/map_files (needs CAP_SYS_ADMIN, or CAP_CHECKPOINT_RESTORE from
// 5.9 on), which works for deleted and replaced files; or else by its path
// under the process's own root, provided that leads to the same file.
func openMapped(dir string, m mapping) (*os.File, error) {
	exact, err := debugfile.Open(filepath.Join(dir, "map_files", fmt.Sprintf("%x-%x", m.Start, m.End)))
	if err == nil || debugfile.Refused(err) {
		return exact, err
	}
	f, err := debugfile.Open(filepath.Join(dir, "root", m.path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", ErrFileReplaced, err)
	}
	if err != nil {
		return nil, err
	}
	same, err := sameFile(f, m)
	if err == nil && !same {
		err = ErrFileReplaced
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// sameFile says whether f is the file that maps shows as m.
func sameFile(f *os.File, m mapping) (bool, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return false, fmt.Errorf("stat: %w", err)
	}
	if st.Ino == m.inode && unix.Major(st.Dev) == m.major && unix.Minor(st.Dev) == m.minor {
		return true, nil
	}
	return mapsAs(f, m.key())
}

// mapsAs maps f and looks how our own maps names it. On btrfs and overlayfs
// stat and maps give different devices, or even inodes, for one file.
func mapsAs(f *os.File, want fileKey) (bool, error) {
	page, err := unix.Mmap(int(f.Fd()), 0, 1, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
	if err != nil {
		return false, fmt.Errorf("map for comparison: %w", err)
	}
	defer func() { _ = unix.Munmap(page) }()
	at, same := uint64(uintptr(unsafe.Pointer(&page[0]))), false
	err = procfs.CodeFrom("/proc/self", at, func(v *procfs.VMA) bool {
		same = v.Start <= at && fileKey{v.DevMajor, v.DevMinor, v.Inode} == want
		return false
	})
	return same, err
}
