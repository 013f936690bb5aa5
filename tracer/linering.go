package tracer

import (
	"fmt"
	"math/bits"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/bpf"
)

// lineSize is the size of a record in an event ring, and of its head lines.
const lineSize = int(unsafe.Sizeof(bpf.MemtraceRingLine{}))

// lastWord is where a record's last word lies, which is written when all else is.
const lastWord = unsafe.Offsetof(bpf.MemtraceRecordHead{}.Aux)

// lineRing reads an event ring in place: bpf/headers/ring.h has its layout and
// says why it is not the kernel's ring buffer.
type lineRing struct {
	m     *ebpf.Map
	mem   []byte
	bits  uint          // the ring has 1<<bits records
	pos   uint64        // read up to here, in records
	given atomic.Uint64 // given back up to here, for others to see
}

// openLineRing maps a ring by the specification of its map.
func openLineRing(spec *ebpf.MapSpec) (*lineRing, error) {
	m, err := ebpf.NewMap(spec)
	if err != nil {
		return nil, fmt.Errorf("create an event ring of %d lines: %w", spec.MaxEntries, err)
	}
	page := os.Getpagesize()
	size := (int(spec.MaxEntries)*lineSize + page - 1) &^ (page - 1)
	mem, err := unix.Mmap(m.FD(), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		_ = m.Close()
		return nil, fmt.Errorf("map %d bytes of an event ring: %w", size, err)
	}
	return newLineRing(m, mem, int(spec.MaxEntries)-int(bpf.MemtraceRingLayoutRING_RECORDS)), nil
}

func newLineRing(m *ebpf.Map, mem []byte, records int) *lineRing {
	return &lineRing{m: m, mem: mem, bits: uint(bits.TrailingZeros(uint(records)))}
}

func (r *lineRing) close() {
	_ = unix.Munmap(r.mem)
	_ = r.m.Close()
}

func (r *lineRing) bpfMap() *ebpf.Map { return r.m }

// position is that of the producers or of the reader.
func (r *lineRing) position(of bpf.MemtraceRingLayout) *uint64 {
	return (*uint64)(unsafe.Pointer(&r.mem[int(of)*lineSize]))
}

// fill is how full the ring is, from 0 to 1.
func (r *lineRing) fill() float64 {
	waiting := atomic.LoadUint64(r.position(bpf.MemtraceRingLayoutRING_PRODUCER)) - r.pos
	return float64(waiting) / float64(uint64(1)<<r.bits)
}

// release gives everything read so far back to the producers.
func (r *lineRing) release() {
	atomic.StoreUint64(r.position(bpf.MemtraceRingLayoutRING_READER), r.pos)
	r.given.Store(r.pos)
}

// progress grows as the ring is read.
func (r *lineRing) progress() uint64 { return r.given.Load() }

// drain hands every record that was reserved before the call to visit, and
// reports whether it reached the end: false means that a producer is still
// filling a record, behind which nothing can be read yet.
func (r *lineRing) drain(visit func(record []byte)) bool {
	const releaseEvery = releaseEvery / lineSize
	end := atomic.LoadUint64(r.position(bpf.MemtraceRingLayoutRING_PRODUCER))
	mask := uint64(1)<<r.bits - 1
	for r.pos != end {
		at := (int(r.pos&mask) + int(bpf.MemtraceRingLayoutRING_RECORDS)) * lineSize
		record := r.mem[at : at+lineSize : at+lineSize]
		last := atomic.LoadUint64((*uint64)(unsafe.Pointer(&record[lastWord])))
		if uint16(last>>32) != uint16(r.pos>>r.bits+1) {
			r.release()
			return false
		}
		visit(record)
		if r.pos++; r.pos%uint64(releaseEvery) == 0 {
			r.release()
		}
	}
	r.release()
	return true
}
