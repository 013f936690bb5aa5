//go:build linux && !viewer

package procfs

import (
	"bytes"
	"errors"
	"io"
	"sync"

	"github.com/memtrace/memtrace/procfs/internal/text"
	"golang.org/x/sys/unix"
)

// vmaReader is what reading smaps needs; it is pooled for its buffers.
type vmaReader struct {
	file  fdReader
	check fdReader // maps, opened before file
	lines lineReader
	vma   VMA
	path  []byte
	known [maxKnown]knownLine
	at    int // lines of the present mapping that were foreseen
}

// The kernel writes the same lines under each mapping, most of them 28 bytes
// long ("Rss:" and blanks up to 16 bytes, the value in 8, " kB\n"). So the
// lines of the mapping before tell what each line of this one will be.
const (
	maxKnown    = 32
	lineBytes   = 28
	keyBytes    = 16
	valueEnd    = 24
	lineTrailer = " kB\n"
)

// A knownLine is the beginning of a line and where its value goes: into the
// vmaReader's own vma, or nowhere.
type knownLine struct {
	key [keyBytes]byte
	to  *uint64
}

var vmaReaders = sync.Pool{New: func() any { return new(vmaReader) }}

// Maps calls fn for each mapping of the process in ascending order, from
// /proc/PID/maps. The VMA is valid until fn returns. Mappings that change
// while the file is read may be missed or seen twice, never half. [vsyscall],
// which every process has or none, may be missing.
func (p *Process) Maps(fn func(*VMA)) error {
	return p.eachVMA(fileMaps, visitor{each: fn})
}

// MapsWith is Maps for those mappings that have certain permissions, which may cost less.
func (p *Process) MapsWith(perms Perms, fn func(*VMA)) error {
	return p.eachVMA(fileMaps, visitor{each: fn, perms: perms})
}

// MapsOf is Maps for those mappings that are wanted, which may cost less. Wanted is called without their Path and Kind.
func (p *Process) MapsOf(wanted func(*VMA) bool, fn func(*VMA)) error {
	return p.eachVMA(fileMaps, visitor{each: fn, wanted: wanted})
}

// CountMaps counts the mappings of the process: the lines of /proc/PID/maps,
// as the kernel writes newlines in names as \012.
func (p *Process) CountMaps() (n int, err error) {
	fd, err := openAt(p.memoryDir(), fileMaps)
	if err != nil {
		return 0, p.wrap("open", plain(fileMaps), err)
	}
	defer func() { _ = unix.Close(fd) }()
	buf := textBuffers.Get().(*[maxText]byte)
	defer textBuffers.Put(buf)
	for {
		got, err := readRetry(fd, buf[:])
		if err != nil {
			return n, p.wrap("read", plain(fileMaps), err)
		}
		if got <= 0 {
			return n, nil
		}
		n += bytes.Count(buf[:got], []byte{'\n'})
	}
}

// Smaps calls fn for each mapping of the process in ascending order, with its
// Memory, from /proc/PID/smaps. The VMA is valid until fn returns.
func (p *Process) Smaps(fn func(*VMA)) error {
	return p.eachVMA(fileSmaps, visitor{each: fn})
}

// SmapsWhile is Smaps up to the mapping for which fn returns false; that is no
// error. The kernel renders a few mappings at a time, and holds the target's
// mmap lock only meanwhile: an fn that waits spreads that out.
func (p *Process) SmapsWhile(fn func(*VMA) bool) error {
	return p.eachVMA(fileSmaps, visitor{while: fn})
}

// visitor is what is called for each mapping: one of the two.
type visitor struct {
	each  func(*VMA)
	while func(*VMA) bool

	// In maps: those that it is called for.
	perms  Perms
	wanted func(*VMA) bool // nil: all
}

// visit reports whether to go on.
func (v visitor) visit(m *VMA) bool {
	if v.while != nil {
		return v.while(m)
	}
	v.each(m)
	return true
}

func (p *Process) eachVMA(name string, to visitor) error {
	n, err := p.readVMAs(name, to)
	if n == 0 && errors.Is(err, ErrGone) && p.adoptThread() {
		_, err = p.readVMAs(name, to)
	}
	return err
}

func (p *Process) readVMAs(name string, to visitor) (int, error) {
	r := vmaReaders.Get().(*vmaReader)
	defer vmaReaders.Put(r)
	if err := r.open(p, name); err != nil {
		return 0, err
	}
	defer r.close()
	var n int
	var err error
	if name == fileMaps {
		n, err = listMaps(&r.file, to)
	} else {
		n, err = r.parse(&r.file, to)
	}
	if err == nil && (n == 0 || endedEarly(r.check.fd)) {
		err = p.whyNoMemory()
	}
	if err != nil {
		err = p.wrap("read", plain(name), err)
	}
	return n, err
}

// listMaps is parse for maps.
func listMaps(file *fdReader, to visitor) (n int, err error) {
	r := newMapsReader(file, to.perms)
	r.nameless = to.wanted != nil
	defer r.done()
	for ; ; n++ {
		v, err := r.next()
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		ok := v.Perms&to.perms == to.perms
		if ok && to.wanted != nil {
			if ok = to.wanted(v); ok {
				v, ok = r.named(v)
			}
		}
		if ok && !to.visit(v) {
			return n + 1, nil
		}
	}
}

// open opens the file, and maps before it for endedEarly.
func (r *vmaReader) open(p *Process, name string) error {
	fd, err := openAt(p.memoryDir(), fileMaps)
	if err != nil {
		return p.wrap("open", plain(fileMaps), err)
	}
	r.check.fd, r.file.fd = fd, fd
	if name == fileMaps {
		return nil
	}
	if r.file.fd, err = openAt(p.memoryDir(), name); err != nil {
		r.check.close()
		return p.wrap("open", plain(name), err)
	}
	return nil
}

func (r *vmaReader) close() {
	if r.file.fd != r.check.fd {
		r.file.close()
	}
	r.check.close()
}

// endedEarly reports whether the address space went away while it was read
// (exit or exec): the kernel then ends the text after a whole mapping, as it
// does at its true end, but has nothing left at the beginning either. That is
// asked of maps, which walks no page table to say so.
func endedEarly(maps int) bool {
	var b [1]byte
	n, err := unix.Pread(maps, b[:], 0)
	return err == nil && n == 0 || err == unix.ESRCH
}

// parse reads the text of smaps and returns the number of mappings.
// A line that begins with a capital belongs to the mapping above it.
// The visitor may end it.
func (r *vmaReader) parse(src io.Reader, to visitor) (n int, err error) {
	r.lines.reset(src)
	for {
		if n > 0 {
			r.foreseen()
		}
		line, err := r.lines.next()
		if err != nil {
			if err != io.EOF {
				return n, err
			}
			if n > 0 {
				to.visit(&r.vma)
			}
			return n, nil
		}
		if len(line) > 0 && line[0] >= 'A' && line[0] <= 'Z' && n > 0 {
			if err := r.detail(line); err != nil {
				return n, err
			}
			continue
		}
		if n > 0 && !to.visit(&r.vma) {
			return n, nil
		}
		if err := r.header(line); err != nil {
			return n, err
		}
		n++
	}
}

// foreseen takes the lines that are as expected, as far as they are buffered.
func (r *vmaReader) foreseen() {
	for r.at < maxKnown && r.lines.w-r.lines.r >= lineBytes {
		line := (*[lineBytes]byte)(r.lines.buf[r.lines.r:])
		known := &r.known[r.at]
		if known.key[0] == 0 || [keyBytes]byte(line[:keyBytes]) != known.key || string(line[valueEnd:]) != lineTrailer {
			return
		}
		v, ok := eightDigits([8]byte(line[keyBytes:valueEnd]))
		if !ok {
			return
		}
		if known.to != nil {
			*known.to = v << 10
		}
		r.lines.r += lineBytes
		r.at++
	}
}

// eightDigits parses a number that blanks fill up to eight bytes.
func eightDigits(b [8]byte) (v uint64, ok bool) {
	if b == [8]byte([]byte("       0")) {
		return 0, true
	}
	i := 0
	for i < 7 && b[i] == ' ' {
		i++
	}
	for _, c := range b[i:] {
		d := c - '0'
		if d > 9 {
			return 0, false
		}
		v = v*10 + uint64(d)
	}
	return v, true
}

// foresee expects the line, which is that of the present mapping after those
// foreseen, in the next mapping too.
func (r *vmaReader) foresee(line []byte, to *uint64) {
	if r.at < maxKnown && len(line) == lineBytes-1 {
		r.known[r.at] = knownLine{[keyBytes]byte(line), to}
		r.at++
	}
}

// header begins a new mapping.
func (r *vmaReader) header(line []byte) error {
	r.vma, r.at = VMA{}, 0
	path, err := parseVMA(line, &r.vma)
	if err != nil {
		return err
	}
	r.path = append(r.path[:0], path...) // the line moves when more is read
	r.vma.Path = r.path
	return nil
}

// detail takes a line of smaps below a mapping.
func (r *vmaReader) detail(line []byte) error {
	key, value, ok := text.Keyed(line)
	if !ok {
		return ErrFormat
	}
	to := r.vma.field(key)
	r.foresee(line, to)
	if to != nil {
		if *to, ok = text.Kilobytes(value); !ok {
			return ErrFormat
		}
	} else if string(key) == "VmFlags" {
		r.vma.Flags = parseVMFlags(value)
	}
	return nil
}
