//go:build linux && !viewer

package runtimemap

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Kinds of the Parts of a process that runs V8.
const (
	V8Heap = "V8 heap" // JavaScript objects
	V8Code = "V8 code" // that V8 compiled
)

const (
	// chunkAlign is the alignment of V8's pages, and of large objects.
	chunkAlign = 256 << 10
	// chunkHeader is how much of a page's header is read (BasicMemoryChunk): size, flags, heap, and where its objects begin and end.
	chunkHeader = 5 * 8
	// maxChunkHead bounds where objects begin; maxChunk is the largest page, in bytes.
	maxChunkHead, maxChunk = 64 << 10, 1 << 40
	// chunksAtOnce is how many headers are read by one call, maxHeaders by one reading.
	chunksAtOnce, maxHeaders = 256, 1 << 16
)

type v8 struct{ pid int }

func (v *v8) name() string { return "v8" }

// errNoChunk: V8 of another version than is known here.
var errNoChunk = errors.New("no page of V8's heap was found: those of Node.js 20 are known")

// errHeaders: the process has very many mappings, or pages of V8.
var errHeaders = fmt.Errorf("V8's pages are not all: memtrace looks at %d addresses", maxHeaders)

// parts looks at the first address of each anonymous mapping at which a page of V8 may begin, and on behind each page. It reads nothing else:
// memory that was never touched is not to be touched by memtrace.
func (v *v8) parts(areas []area) (out []Part, err error) {
	left := maxHeaders
	var at, ends []uint64
	for _, a := range areas {
		if first := alignChunk(a.start); a.readable && first < a.end {
			at, ends = append(at, first), append(ends, a.end)
		}
	}
	for len(at) > 0 && left > 0 {
		n := min(len(at), chunksAtOnce, left)
		left -= n
		for i, size := range v.sizes(at[:n]) {
			if size == 0 {
				continue
			}
			out = append(out, Part{Kind: V8Heap, Start: at[i], End: at[i] + size})
			if next := alignChunk(at[i] + size); next < ends[i] {
				at, ends = append(at, next), append(ends, ends[i])
			}
		}
		at, ends = at[n:], ends[n:]
	}
	if len(out) == 0 {
		return nil, errNoChunk
	}
	if len(at) > 0 {
		err = errHeaders
	}
	return codeApart(out, areas), err
}

func alignChunk(at uint64) uint64 { return (at + chunkAlign - 1) &^ (chunkAlign - 1) }

// sizes reads the headers at addresses, and returns how large the page there is; 0 where there is none.
func (v *v8) sizes(at []uint64) []uint64 {
	sizes := make([]uint64, len(at))
	buf := make([]byte, chunkHeader*len(at))
	for from := 0; from < len(at); from++ { // one that can't be read ends a call
		remote := make([]unix.RemoteIovec, 0, len(at)-from)
		for _, addr := range at[from:] {
			remote = append(remote, unix.RemoteIovec{Base: uintptr(addr), Len: chunkHeader})
		}
		local := unix.Iovec{Base: &buf[0], Len: uint64(chunkHeader * len(remote))}
		n, err := unix.ProcessVMReadv(v.pid, []unix.Iovec{local}, remote, 0)
		for i := range max(n, 0) / chunkHeader {
			sizes[from] = chunkSize(at[from], buf[i*chunkHeader:])
			from++
		}
		if err != nil && err != unix.EFAULT {
			break
		}
	}
	return sizes
}

// chunkSize is the size of the page of which this is the header, 0 if it is none.
func chunkSize(at uint64, header []byte) uint64 {
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(header[i*8:]) }
	size, begin, end := word(0), word(3), word(4)
	if size < pageSize || size > maxChunk || size%8 != 0 || begin <= at || begin-at > maxChunkHead || end <= begin || end > at+size {
		return 0
	}
	return (size + pageSize - 1) &^ (pageSize - 1)
}

// codeApart gives pages of which a part can be executed a kind of their own. What lies in another page, as no page of
// V8's does, is left out first: pages that all reach over all areas would take the product of their numbers to look at.
func codeApart(pages []Part, areas []area) []Part {
	pages, _ = apart(pages) // there are no more than it takes: maxHeaders
	next := 0
	for i := range pages {
		p := &pages[i]
		for next < len(areas) && areas[next].end <= p.Start {
			next++
		}
		for _, a := range areas[next:] {
			if a.start >= p.End {
				break
			}
			if a.executable {
				p.Kind = V8Code
			}
		}
	}
	return pages
}
