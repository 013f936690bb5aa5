package symbol

import (
	"debug/elf"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/analyzer/demangle"
	"github.com/memtrace/memtrace/tracer/debugfile"
)

const (
	// maxFileSize is the largest file that is mapped; Chromium with all of
	// its DWARF is some 5 GB.
	maxFileSize = 1 << 34
	// maxFiles bounds the files mapped at once, for all Spaces and Resolvers
	// together. Each costs address space and one of the 65,530 mappings that
	// the kernel allows by default.
	maxFiles = 16384
)

var errTooManyFiles = errors.New("too many files are mapped already")

// fileKey identifies the content of a file: the inode can't be reused while
// the file is mapped, and a rewrite in place changes the rest.
type fileKey struct {
	dev, ino uint64
	size     int64
	mtime    unix.Timespec
}

// mappedFile is a file mapped read-only as a whole. No descriptor is kept: the
// mapping alone holds the inode, deleted or not. It is shared and counted.
type mappedFile struct {
	key   fileKey
	path  string // where it was found first, for messages
	owner uint32 // user ID
	group uint32
	data  []byte
	owned bool // data is memory of our own, not the file's
	refs  int  // guarded by the table's lock

	changed unix.Timespec // the inode, when it was opened

	unpacked atomic.Int64 // bytes ever decompressed from it
	work     atomic.Int64 // ever spent on its DWARF; see dwarf.Data

	demangling demangle.Budget // where it is root's
	mangled    atomic.Bool     // names stayed so that another run may well demangle
}

// fileTable holds the mapped files of the whole program by identity. There is
// one, since what it bounds belongs to the whole program.
type fileTable struct {
	mu    sync.Mutex
	files map[fileKey]*mappedFile
	space addressSpace
}

var files = fileTable{files: map[fileKey]*mappedFile{}}

// open maps the regular file behind descriptor fd, which it does not close.
// The caller releases the result.
func (t *fileTable) open(fd int, path string) (*mappedFile, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("stat %s: %w", path, err)
	}
	key := fileKey{dev: uint64(st.Dev), ino: st.Ino, size: st.Size, mtime: st.Mtim}
	f, err := t.find(key, st.Uid, path)
	if f != nil || err != nil {
		return f, err
	}
	data, err := mapWhole(fd, st.Size) // unlocked: nobody else waits for this file
	t.giveBack(st.Uid, st.Size-int64(len(data)))
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", path, err)
	}
	return t.add(&mappedFile{key: key, path: path, owner: st.Uid, group: st.Gid, changed: st.Ctim, data: data, refs: 1})
}

// find retains the file of a key. Where there is none it takes the room for one of the key's size, and returns nil.
func (t *fileTable) find(key fileKey, owner uint32, path string) (*mappedFile, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f := t.files[key]; f != nil {
		f.refs++
		return f, nil
	}
	if len(t.files) >= maxFiles {
		return nil, fmt.Errorf("map %s: %w (%d)", path, errTooManyFiles, maxFiles)
	}
	if err := t.space.take(owner, key.size); err != nil {
		return nil, fmt.Errorf("map %s: %w", path, err)
	}
	return nil, nil
}

// giveBack gives room back that was taken and is not needed.
func (t *fileTable) giveBack(owner uint32, bytes int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.space.give(owner, bytes)
}

// add lists a file, or lets go of it for one that another goroutine has listed meanwhile.
func (t *fileTable) add(f *mappedFile) (*mappedFile, error) {
	old, err := t.list(f)
	if old != f && f.data != nil {
		t.giveBack(f.owner, int64(len(f.data)))
		// Only an address that mmap did not give could fail here.
		_ = unix.Munmap(f.data)
	}
	return old, err
}

func (t *fileTable) list(f *mappedFile) (*mappedFile, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old := t.files[f.key]; old != nil {
		old.refs++
		return old, nil
	}
	if len(t.files) >= maxFiles {
		return nil, fmt.Errorf("map %s: %w (%d)", f.path, errTooManyFiles, maxFiles)
	}
	t.files[f.key] = f
	return f, nil
}

// mapWhole maps a file of the given size; one that is no ELF file, of which nothing is read, gives nothing.
// The descriptor may be one of O_PATH.
func mapWhole(fd int, size int64) ([]byte, error) {
	if size == 0 {
		return nil, nil
	}
	readable, err := debugfile.Reopen(fd)
	if err != nil {
		return nil, err
	}
	defer unix.Close(readable)
	var magic [len(elf.ELFMAG)]byte
	if n, err := unix.Pread(readable, magic[:], 0); err != nil || string(magic[:n]) != elf.ELFMAG {
		return nil, err
	}
	return unix.Mmap(readable, 0, int(size), unix.PROT_READ, unix.MAP_PRIVATE)
}

// dropPages gives the pages of the file that were read back to the page cache:
// they count as memtrace's memory else, though they can be had again at once.
func (f *mappedFile) dropPages() {
	if !f.owned && len(f.data) > 0 {
		_ = unix.Madvise(f.data, unix.MADV_DONTNEED)
	}
}

// retain counts one more user of f.
func (t *fileTable) retain(f *mappedFile) *mappedFile {
	t.mu.Lock()
	defer t.mu.Unlock()
	f.refs++
	return f
}

// release gives up one use of f; the last one unmaps it.
func (t *fileTable) release(f *mappedFile) {
	if f == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if f.refs--; f.refs > 0 {
		return
	}
	delete(t.files, f.key)
	if f.data != nil {
		if !f.owned {
			t.space.give(f.owner, int64(len(f.data)))
		}
		// Only an address that mmap did not give could fail here.
		_ = unix.Munmap(f.data)
		f.data = nil
	}
}
