package tracer

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Bits of a record's header; kernel/bpf/ringbuf.c and include/uapi/linux/bpf.h.
const (
	ringBusy       = 1 << 31
	ringDiscard    = 1 << 30
	ringHeaderSize = 8
)

// ring reads a BPF ring buffer in place. The kernel's interface: one writable
// page with the consumer's position, one read-only page with the producer's,
// and the data, mapped twice in a row so that no record is ever split.
type ring struct {
	m        *ebpf.Map
	consumer []byte
	producer []byte
	data     []byte // both copies
	mask     uint64
	pos      uint64        // read up to here
	given    atomic.Uint64 // given back up to here, for others to see
}

// openRing maps a ring of size bytes, a power of two and a multiple of the page size.
func openRing(size int) (*ring, error) {
	m, err := ebpf.NewMap(&ebpf.MapSpec{Name: "ring", Type: ebpf.RingBuf, MaxEntries: uint32(size)})
	if err != nil {
		return nil, fmt.Errorf("create a ring buffer of %d bytes: %w", size, err)
	}
	page := os.Getpagesize()
	consumer, err := unix.Mmap(m.FD(), 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		_ = m.Close()
		return nil, fmt.Errorf("map the consumer page of a ring buffer: %w", err)
	}
	rest, err := unix.Mmap(m.FD(), int64(page), page+2*size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		_ = unix.Munmap(consumer)
		_ = m.Close()
		return nil, fmt.Errorf("map %d bytes of ring buffer: %w", 2*size, err)
	}
	return &ring{m: m, consumer: consumer, producer: rest, data: rest[page:], mask: uint64(size - 1)}, nil
}

func (r *ring) bpfMap() *ebpf.Map { return r.m }

func (r *ring) close() {
	_ = unix.Munmap(r.consumer)
	_ = unix.Munmap(r.producer)
	_ = r.m.Close()
}

func (r *ring) produced() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Pointer(&r.producer[0])))
}

// fill is how full the ring is, from 0 to 1.
func (r *ring) fill() float64 { return float64(r.produced()-r.pos) / float64(r.mask+1) }

// release gives everything read so far back to the producers.
func (r *ring) release() {
	atomic.StoreUint64((*uint64)(unsafe.Pointer(&r.consumer[0])), r.pos)
	r.given.Store(r.pos)
}

// progress grows as the ring is read.
func (r *ring) progress() uint64 { return r.given.Load() }

// releaseEvery is how much is read before the producers get it back.
const releaseEvery = 64 << 10

// drain hands every record that was reserved before the call to visit, and
// reports whether it reached the end: false means that a producer is still
// filling a record, behind which nothing can be read yet.
func (r *ring) drain(visit func(record []byte)) bool {
	end := r.produced()
	kept := r.pos
	for r.pos < end {
		at := r.pos & r.mask
		header := atomic.LoadUint32((*uint32)(unsafe.Pointer(&r.data[at])))
		if header&ringBusy != 0 {
			r.release()
			return false
		}
		size := uint64(header &^ (ringBusy | ringDiscard))
		if header&ringDiscard == 0 {
			visit(r.data[at+ringHeaderSize : at+ringHeaderSize+size])
		}
		r.pos += (ringHeaderSize + size + 7) &^ 7
		if r.pos-kept >= releaseEvery {
			kept = r.pos
			r.release()
		}
	}
	r.release()
	return true
}
