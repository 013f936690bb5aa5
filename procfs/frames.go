package procfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

// FrameFile is one of the files about page frames, by frame number
// (Documentation/admin-guide/mm/pagemap.rst). Only root may read them, or who
// has CAP_DAC_READ_SEARCH.
type FrameFile string

const (
	// FrameCounts is how often each frame is mapped; on a kernel with
	// CONFIG_NO_PAGE_MAPCOUNT (Linux 6.15 on) the average of a large folio's.
	FrameCounts FrameFile = "kpagecount"
	// FrameFlags are the flags of each frame, see FrameFlag (Linux 2.6.31).
	FrameFlags FrameFile = "kpageflags"
	// FrameCgroups is the inode number of the control group that each frame
	// is charged to, or 0 (Linux 4.3, CONFIG_MEMCG).
	FrameCgroups FrameFile = "kpagecgroup"
)

// FrameFlag is a bit of kpageflags (include/uapi/linux/kernel-page-flags.h).
type FrameFlag uint64

const (
	FrameLocked       FrameFlag = 1 << 0
	FrameError        FrameFlag = 1 << 1
	FrameReferenced   FrameFlag = 1 << 2
	FrameUptodate     FrameFlag = 1 << 3
	FrameDirty        FrameFlag = 1 << 4
	FrameLRU          FrameFlag = 1 << 5
	FrameActive       FrameFlag = 1 << 6
	FrameSlab         FrameFlag = 1 << 7
	FrameWriteback    FrameFlag = 1 << 8
	FrameReclaim      FrameFlag = 1 << 9
	FrameBuddy        FrameFlag = 1 << 10 // free
	FrameMmap         FrameFlag = 1 << 11 // mapped by a process
	FrameAnon         FrameFlag = 1 << 12
	FrameSwapCache    FrameFlag = 1 << 13
	FrameSwapBacked   FrameFlag = 1 << 14
	FrameCompoundHead FrameFlag = 1 << 15
	FrameCompoundTail FrameFlag = 1 << 16
	FrameHuge         FrameFlag = 1 << 17 // of hugetlbfs
	FrameUnevictable  FrameFlag = 1 << 18
	FrameHWPoison     FrameFlag = 1 << 19
	FrameNoPage       FrameFlag = 1 << 20 // there is no such frame
	FrameKSM          FrameFlag = 1 << 21
	FrameTHP          FrameFlag = 1 << 22
	FrameOffline      FrameFlag = 1 << 23 // by a balloon, since Linux 5.1
	FrameZero         FrameFlag = 1 << 24 // the shared zero page
	FrameIdle         FrameFlag = 1 << 25
	FramePageTable    FrameFlag = 1 << 26 // since Linux 4.18
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
