//go:build linux && !viewer

package procfs

import (
	"io"
	"sync"

	"golang.org/x/sys/unix"
)

// mapsReader lists the mappings in an open /proc/PID/maps, without their Memory: by the text of the file and, once that
// turns out to be mostly paths, by PROCMAP_QUERY (Linux 6.11). For usual lines the text is quicker, as the kernel
// renders dozens of mappings in one call. But it looks for characters to escape in paths byte by byte, which takes 20 µs for a
// path of 4,096 bytes, in each of 65,530 lines; an answer with such a path takes 4 µs.
//
//	text     until longText bytes were read, if lines have longLine bytes or more on average
//	queries  from the end of the last mapping of the text on; where the kernel knows none, the text goes on
type mapsReader struct {
	lines lineReader
	vma   VMA
	path  []byte
	file  *fdReader // nil: text alone

	read, mappings int
	only           Perms      // what mappings have that queries don't leave out
	hold           bool       // the next mapping has to be the one after this, whatever only says
	asks           *mapFinder // nil: not yet
	textOnly       bool
	from           uint64 // where to begin, if queries can; else it is the caller's to leave out what is before
	nameless       bool   // queries go without paths, but for named

	before, moved ownVMA // see code
}

const (
	longText = 64 << 10
	longLine = 512
)

var mapsReaders = sync.Pool{New: func() any { return new(mapsReader) }}

// newMapsReader returns one for an open file. It may leave out mappings without all permissions of only.
func newMapsReader(file *fdReader, only Perms) *mapsReader {
	r := mapsReaders.Get().(*mapsReader)
	r.begin(file)
	r.file, r.only = file, only
	return r
}

func (r *mapsReader) begin(text io.Reader) {
	r.lines.reset(text)
	r.read, r.mappings, r.hold, r.textOnly, r.from, r.nameless = 0, 0, false, false, 0, false
	r.vma = VMA{}
}

// done gives it back.
func (r *mapsReader) done() {
	if r.asks != nil {
		r.asks.done()
	}
	r.file, r.asks = nil, nil
	r.lines.src = nil
	mapsReaders.Put(r)
}

// next returns the next mapping, which is valid until the next call, or io.EOF. Queries have no [vsyscall].
func (r *mapsReader) next() (*VMA, error) {
	if r.asks == nil && r.isLong() {
		r.asks = newMapFinder()
		v, err := r.ask()
		if err == nil || err == io.EOF {
			return v, err
		}
		r.asks.done() // an older kernel, a fixture, or a process that is gone
		r.asks, r.textOnly = nil, true
	}
	if r.asks != nil {
		return r.ask()
	}
	line, err := r.lines.next()
	if err != nil {
		return nil, err
	}
	r.vma = VMA{}
	path, err := parseVMA(line, &r.vma)
	if err != nil {
		return nil, err
	}
	r.path = append(r.path[:0], path...) // the line moves when more is read
	r.vma.Path = r.path
	r.read += len(line)
	r.mappings++
	return &r.vma, nil
}

// isLong reports whether to go on by queries.
func (r *mapsReader) isLong() bool {
	if r.hold || r.textOnly || r.file == nil {
		return false
	}
	return r.mappings == 0 && r.from > 0 || r.read >= longText && r.read/r.mappings >= longLine
}

// ask is next by a query.
func (r *mapsReader) ask() (*VMA, error) {
	err := r.asks.ask(r.file.fd, max(r.vma.End, r.from), queryNext|uint64(r.only), question{name: !r.nameless})
	if err != nil {
		if err == unix.ENOENT || err == unix.ESRCH { // no more, or an exec or exit: the text ends there, too
			err = io.EOF
		}
		return nil, err
	}
	r.vma = r.asks.vma
	r.mappings++
	return &r.vma, nil
}

// at calls fn with the mapping that holds an address, if there is one, once next goes by queries. It is valid until
// anything else is read.
func (r *mapsReader) at(addr uint64) *VMA {
	if r.asks == nil || r.asks.ask(r.file.fd, addr, 0, question{name: true}) != nil {
		return nil
	}
	return &r.asks.vma
}

// named returns a mapping with its path, if it is still the same.
func (r *mapsReader) named(v *VMA) (*VMA, bool) {
	if r.asks == nil {
		return v, true
	}
	named := r.at(v.Start)
	if named == nil || named.Start != v.Start || named.End != v.End {
		return nil, false
	}
	return named, named.Inode == v.Inode && named.Offset == v.Offset
}

// LongPath stands for a path that has more than 4,096 bytes. Nothing can be opened by such a path.
const LongPath = "/[a path of more than 4096 bytes]"
