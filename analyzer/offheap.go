package analyzer

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
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
// that the garbage collector neither scans nor counts. It grows and shrinks in
// chunks of 2 MiB.
type segmentPool struct {
	chunks []unsafe.Pointer
	used   uint32 // segments handed out: 0 … used-1
	high   uint32 // segments of the mapped chunks that were ever handed out
}

// at returns segment i.
func (p *segmentPool) at(i uint32) *segment {
	return (*segment)(unsafe.Add(p.chunks[i/chunkSegs], uintptr(i%chunkSegs)*pageSize))
}

// grow hands out the next segment, empty.
func (p *segmentPool) grow() (uint32, error) {
	if int(p.used/chunkSegs) == len(p.chunks) {
		if err := p.mapChunk(); err != nil {
			return 0, err
		}
	}
	i := p.used
	p.used++
	p.high = max(p.high, p.used)
	*p.at(i) = segment{}
	return i, nil
}

// shrink takes back the last segment. It keeps one empty chunk, so that a heap
// that breathes at a chunk's border does not map and unmap all the time.
func (p *segmentPool) shrink() {
	p.used--
	if need := int(p.used+chunkSegs-1) / chunkSegs; len(p.chunks) > need+1 {
		p.unmapChunk()
	}
}

func (p *segmentPool) mapChunk() error {
	mem, err := unix.MmapPtr(-1, 0, nil, chunkSize,
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err != nil {
		return fmt.Errorf("map %d bytes for the live heap: %w", chunkSize, err)
	}
	if len(p.chunks) >= hugeFrom {
		// Advice only: without huge pages the heap is slower, not wrong.
		_ = unix.Madvise(unsafe.Slice((*byte)(mem), chunkSize), unix.MADV_HUGEPAGE)
	}
	p.chunks = append(p.chunks, mem)
	return nil
}

func (p *segmentPool) unmapChunk() {
	last := len(p.chunks) - 1
	// It cannot fail for a whole mapping of our own; if it did, the memory
	// would be kept, and nothing else.
	_ = unix.MunmapPtr(p.chunks[last], chunkSize)
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
	p.used = 0
}
