//go:build linux && !viewer

package goheap

import (
	"encoding/binary"
	"io"
)

// block is how much is read at a time. Go maps memory for its buckets in pieces of 256 KiB.
const block = 16 << 10

// page is what is read where a block can't be from its beginning on: it divides the page size of every machine.
const page = 4 << 10

// pages reads small pieces of a file or a memory, and remembers the blocks that they lie in.
type pages struct {
	from   io.ReaderAt
	pieces map[place][]byte
	room   int // blocks that may still be read; of a file, that are remembered at a time
	file   bool
	spent  bool // there were more
	calls  int
	bytes  uint64
}

// ofMemory reads a memory that changes, once: no more of it than room, in bytes.
func ofMemory(from io.ReaderAt, room int) *pages {
	return &pages{from: from, pieces: make(map[place][]byte), room: room / block}
}

// ofFile reads a file, and remembers no more of it than room at a time.
func ofFile(from io.ReaderAt, room int) *pages {
	p := ofMemory(from, room)
	p.file = true
	return p
}

// block returns what lies from a multiple of block on; shorter where only that much can be read.
func (p *pages) block(at uint64) []byte { return p.piece(at, block) }

// A place is where a piece begins, and its size.
type place struct {
	at   uint64
	size int
}

// piece returns what lies from a multiple of a size on.
func (p *pages) piece(at uint64, size int) []byte {
	key := place{at, size}
	if b, ok := p.pieces[key]; ok {
		return b
	}
	switch {
	case len(p.pieces) < p.room:
	case p.file:
		clear(p.pieces)
	default:
		p.spent = true
		return nil
	}
	buf := make([]byte, size)
	n, _ := p.from.ReadAt(buf, int64(at))
	p.calls++
	p.bytes += uint64(n)
	p.pieces[key] = buf[:n]
	return buf[:n]
}

// read fills into, and reports whether all of it could be read.
func (p *pages) read(into []byte, at uint64) bool {
	for len(into) > 0 {
		if at > 1<<62 {
			return false
		}
		start := at &^ (block - 1)
		b := p.block(start)
		if at-start >= uint64(len(b)) { // what lies before it in the block may not be there
			start = at &^ (page - 1)
			b = p.piece(start, page)
		}
		if at-start >= uint64(len(b)) {
			return false
		}
		n := copy(into, b[at-start:])
		into, at = into[n:], at+uint64(n)
	}
	return true
}

func (p *pages) u32(at uint64) (uint32, bool) {
	var b [4]byte
	ok := p.read(b[:], at)
	return binary.LittleEndian.Uint32(b[:]), ok
}

func (p *pages) u64(at uint64) (uint64, bool) {
	var b [8]byte
	ok := p.read(b[:], at)
	return binary.LittleEndian.Uint64(b[:]), ok
}

// text reads a string that ends with a byte of 0, up to a limit.
func (p *pages) text(at uint64, limit int) string {
	var out []byte
	for len(out) < limit {
		b := p.block(at &^ (block - 1))
		off := at & (block - 1)
		if off >= uint64(len(b)) {
			break
		}
		for i, c := range b[off:] {
			if c == 0 || len(out)+i >= limit {
				return string(append(out, b[off:off+uint64(i)]...))
			}
		}
		out = append(out, b[off:]...)
		at += uint64(len(b)) - off
	}
	return string(out)
}
