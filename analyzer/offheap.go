package analyzer

import (
	"errors"
	"fmt"
	"unsafe"
)

const (
	pageSize  = 4096 // size of a segment, a divisor of every kernel page size
	chunkSize = 2 << 20
	chunkSegs = chunkSize / pageSize

	// hugeFrom is the chunk from which transparent huge pages are asked for.
	// They halve the cost of an event in a big heap; in a small one they
	// would cost more memory than the blocks.
	hugeFrom = 8
)

// A segmentPool hands out segments numbered from 0 without gaps, from memory
// that the garbage collector does not scan and, on Linux, does not count. It
// grows and shrinks in chunks of 2 MiB.
type segmentPool struct {
	chunks []unsafe.Pointer
	used   uint32 // segments handed out: 0 … used-1
	high   uint32 // segments of the mapped chunks that were ever handed out
	room   *room  // that they are taken from; nil: there is no limit
	owner  *owner
}

// errNoRoom means that live blocks have as much memory as they may.
var errNoRoom = errors.New("the live blocks take all memory that there is for them")

// at returns segment i.
func (p *segmentPool) at(i uint32) *segment {
	return (*segment)(unsafe.Add(p.chunks[i/chunkSegs], uintptr(i%chunkSegs)*pageSize))
}

// grow hands out the next segment, empty.
func (p *segmentPool) grow() (uint32, error) {
	if !p.room.claim(p.owner, pageSize) {
		return 0, errNoRoom
	}
	if int(p.used/chunkSegs) == len(p.chunks) {
		if err := p.mapChunk(); err != nil {
			p.room.release(p.owner, pageSize)
			return 0, err
		}
	}
	i := p.used
	p.used++
	p.high = max(p.high, p.used)
	p.at(i).reset(0, 0)
	return i, nil
}

// shrink takes back the last segment. Memory goes back to the kernel in
// steps, so that a heap that breathes does not ask for the same pages again
// and again.
func (p *segmentPool) shrink() {
	p.used--
	p.room.release(p.owner, pageSize)
	if spare := p.used/64 + 16; p.high > p.used+2*spare {
		p.release(p.used + spare)
	}
}

// release gives back the memory from segment keep on, as far as it can: whole
// chunks, and pages of a chunk that has no huge pages.
func (p *segmentPool) release(keep uint32) {
	for len(p.chunks) > int(keep+chunkSegs-1)/chunkSegs {
		p.unmapChunk()
	}
	last := len(p.chunks) - 1
	if last < 0 || last >= hugeFrom || p.high <= keep {
		return
	}
	first := keep - uint32(last*chunkSegs)
	pages := unsafe.Slice((*byte)(p.chunks[last]), chunkSize)[first*pageSize:]
	if discard(pages) {
		p.high = keep
	}
}

func (p *segmentPool) mapChunk() error {
	mem, err := newChunk(len(p.chunks) >= hugeFrom)
	if err != nil {
		return fmt.Errorf("map %d bytes for the live heap: %w", chunkSize, err)
	}
	p.chunks = append(p.chunks, mem)
	return nil
}

func (p *segmentPool) unmapChunk() {
	last := len(p.chunks) - 1
	dropChunk(p.chunks[last])
	p.chunks[last] = nil
	p.chunks = p.chunks[:last]
	p.high = min(p.high, uint32(last*chunkSegs))
}

// bytes is the memory that the segments take up: pages are there from their
// first use, those of chunks with huge pages all at once.
func (p *segmentPool) bytes() uint64 {
	if p.high <= hugeFrom*chunkSegs {
		return uint64(p.high) * pageSize
	}
	return (uint64(p.high)*pageSize + chunkSize - 1) / chunkSize * chunkSize
}

// free unmaps everything.
func (p *segmentPool) free() {
	for len(p.chunks) > 0 {
		p.unmapChunk()
	}
	p.room.release(p.owner, uint64(p.used)*pageSize)
	p.used, p.high = 0, 0
}
