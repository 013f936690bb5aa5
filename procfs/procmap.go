//go:build linux && !viewer

package procfs

import (
	"bytes"
	"errors"
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/procfs/internal/text"
)

// procmapQuery is the ioctl PROCMAP_QUERY, _IOWR('f', 17, struct procmap_query)
// of include/uapi/linux/fs.h.
const procmapQuery = 0xc0686611

// queryNext is PROCMAP_QUERY_COVERING_OR_NEXT_VMA. The lower flags of a query are Perms that the mapping has to have.
const queryNext = 0x10

// mapQuery is struct procmap_query.
type mapQuery struct {
	size, flags, addr           uint64
	start, end, perms           uint64
	pageSize, offset, inode     uint64
	major, minor                uint32
	nameSize, buildIDSize       uint32
	nameAddress, buildIDAddress uint64
}

// mapFinder is what one look-up needs; it is pooled for its buffers.
type mapFinder struct {
	query   mapQuery
	name    [unix.PathMax + 64]byte
	buildID [maxBuildID]byte
	vma     VMA
	escaped []byte
	pinner  runtime.Pinner
}

// newMapFinder returns one that stays in its place until done: the kernel writes where its query points.
func newMapFinder() *mapFinder {
	f := mapFinders.Get().(*mapFinder)
	f.pinner.Pin(f)
	return f
}

func (f *mapFinder) done() {
	f.pinner.Unpin()
	mapFinders.Put(f)
}

// maxBuildID is the kernel's BUILD_ID_SIZE_MAX.
const maxBuildID = 20

var mapFinders = sync.Pool{New: func() any { return new(mapFinder) }}

// FindVMA calls fn with the mapping that holds an address, and with the build
// ID of the file behind it, where the kernel knows one; both are valid until
// fn returns. It reports false where nothing is mapped there.
//
// It asks by PROCMAP_QUERY (Linux 6.11), which looks at this mapping alone and
// gives the build ID; on older kernels it reads maps up to it, and gives none.
func (p *Process) FindVMA(addr uint64, fn func(v *VMA, buildID []byte)) (bool, error) {
	found, err := p.queryVMA(addr, fn)
	if errors.Is(err, ErrGone) && p.adoptThread() {
		found, err = p.queryVMA(addr, fn)
	}
	if errors.Is(err, ErrNotSupported) {
		return p.searchVMA(addr, fn)
	}
	return found, err
}

// searchVMA is FindVMA for kernels without PROCMAP_QUERY.
func (p *Process) searchVMA(addr uint64, fn func(v *VMA, buildID []byte)) (found bool, err error) {
	err = p.eachVMA(fileMaps, visitor{while: func(v *VMA) bool {
		if found = v.Start <= addr && addr < v.End; found {
			fn(v, nil)
		}
		return v.End <= addr
	}})
	return found, err
}

func (p *Process) queryVMA(addr uint64, fn func(v *VMA, buildID []byte)) (bool, error) {
	fd, err := openAt(p.memoryDir(), fileMaps)
	if err != nil {
		return false, p.wrap("open", plain(fileMaps), err)
	}
	defer func() { _ = unix.Close(fd) }()
	f := newMapFinder()
	defer f.done()
	switch err := f.ask(fd, addr, 0, question{name: true, buildID: true}); err {
	case nil:
		fn(&f.vma, f.buildID[:min(f.query.buildIDSize, maxBuildID)])
		return true, nil
	case unix.ENOENT:
		return false, nil
	case unix.ENOTTY, unix.EINVAL: // an older kernel, a fixture
		return false, ErrNotSupported
	default:
		return false, p.wrap("query", plain(fileMaps), err)
	}
}

// question is what is asked of a mapping beside its place: what takes the kernel time.
type question struct{ name, buildID bool }

// ask asks for the mapping that holds addr, or as flags say, and makes its VMA.
func (f *mapFinder) ask(fd int, addr, flags uint64, what question) error {
	q := mapQuery{size: uint64(unsafe.Sizeof(f.query)), addr: addr, flags: flags}
	if what.name {
		q.nameSize = uint32(len(f.name))
	}
	if what.buildID {
		q.buildIDSize = maxBuildID
	}
	err := f.call(fd, q)
	if err == unix.ENAMETOOLONG {
		q.nameSize = 0
		if err = f.call(fd, q); err == nil {
			f.query.nameSize = uint32(copy(f.name[:], LongPath))
		}
	}
	if err == nil {
		f.fill()
	}
	return err
}

// call is the ioctl.
func (f *mapFinder) call(fd int, q mapQuery) error {
	if q.nameSize > 0 {
		q.nameAddress = uint64(uintptr(unsafe.Pointer(&f.name[0])))
	}
	if q.buildIDSize > 0 {
		q.buildIDAddress = uint64(uintptr(unsafe.Pointer(&f.buildID[0])))
	}
	for {
		f.query = q
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), procmapQuery, uintptr(unsafe.Pointer(&f.query)))
		switch errno {
		case 0:
			return nil
		case unix.EINTR:
		default:
			return errno
		}
	}
}

// fill makes the VMA of the answer.
func (f *mapFinder) fill() {
	q := &f.query
	f.vma = VMA{Start: q.start, End: q.end, Perms: Perms(q.perms & 15), Offset: q.offset,
		DevMajor: q.major, DevMinor: q.minor, Inode: q.inode}
	if n := min(int(q.nameSize), len(f.name)); n > 0 {
		f.vma.Path = f.escape(text.UntilNUL(f.name[:n]))
	}
	f.vma.Kind = kindOf(f.vma.Path, &f.vma)
}

// escape writes newlines as the text of maps does.
func (f *mapFinder) escape(path []byte) []byte {
	if bytes.IndexByte(path, '\n') < 0 {
		return path
	}
	f.escaped = f.escaped[:0]
	for _, c := range path {
		if c == '\n' {
			f.escaped = append(f.escaped, `\012`...)
		} else {
			f.escaped = append(f.escaped, c)
		}
	}
	return f.escaped
}
