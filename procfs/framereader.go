//go:build linux && !viewer

package procfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Frames reads a FrameFile. It is for one goroutine at a time.
type Frames struct {
	fd   int
	name FrameFile
}

// OpenFrames opens a file about page frames. ErrNotSupported: this kernel
// doesn't have it. The caller closes the Frames.
func (fs FS) OpenFrames(name FrameFile) (*Frames, error) {
	path := filepath.Join(fs.root, string(name))
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	switch {
	case err == nil:
		return &Frames{fd: fd, name: name}, nil
	case err == unix.ENOENT:
		return nil, fmt.Errorf("open %s: %w", path, ErrNotSupported)
	case errors.Is(err, os.ErrPermission):
		return nil, fmt.Errorf("open %s: %w: run as root, or as memtrace doctor says (it takes CAP_DAC_READ_SEARCH)", path, err)
	}
	return nil, fmt.Errorf("open %s: %w", path, err)
}

// Close closes the file.
func (f *Frames) Close() error { return unix.Close(f.fd) }

// frameEntries is how many frames are read at once: 1 MiB, as each read costs
// as much as twenty frames do.
const frameEntries = 128 << 10

// Read fills values with those of the frames from first on, and returns how
// many there are: fewer than len(values) after the last frame of the machine.
func (f *Frames) Read(first uint64, values []uint64) (int, error) {
	n := 0
	for n < len(values) {
		part := values[n:min(len(values), n+frameEntries)]
		buf := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(part))), len(part)*8)
		got, err := unix.Pread(f.fd, buf, int64((first+uint64(n))*8))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return n, fmt.Errorf("read %s at frame %d: %w", f.name, first+uint64(n), err)
		}
		n += got / 8
		if got < 8 {
			break
		}
	}
	return n, nil
}
