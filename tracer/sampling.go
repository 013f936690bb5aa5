package tracer

import (
	"fmt"
	"math"
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/bpf"
)

// log2Steps is the number of steps of the kernel half's table of logarithms.
const log2Steps = 1024

// log2Table holds log2(1 + i/1024) with 32 bits after the point.
func log2Table() (table [log2Steps + 1]uint64) {
	for i := range table {
		table[i] = uint64(math.Round(math.Log2(1+float64(i)/log2Steps) * (1 << 32)))
	}
	return table
}

// withoutFilter shrinks the filter where every block is recorded.
func withoutFilter(spec *ebpf.CollectionSpec) {
	spec.Maps[bpf.MemtraceMapFilter].MaxEntries = 1
}

// A filter is the kernel half's set of recorded blocks that live, by a hash of
// their address. bpf/headers/sample.h has its rules: a slot's low byte counts
// blocks, the rest is the address of the one, where it is known.
type filter struct {
	mem  []byte
	bits uint
}

func openFilter(m *ebpf.Map) (*filter, error) {
	n := int(m.MaxEntries())
	mem, err := unix.Mmap(m.FD(), 0, slotSize*n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes of the filter for frees: %w", slotSize*n, err)
	}
	return newFilter(mem), nil
}

const slotSize = 8

func newFilter(mem []byte) *filter {
	return &filter{mem: mem, bits: uint(bits.TrailingZeros(uint(len(mem) / slotSize)))}
}

func (f *filter) slot(addr uint64) *uint64 {
	const multiplier = 0x9fb21c651e98df25
	return (*uint64)(unsafe.Pointer(&f.mem[slotSize*(addr*multiplier>>(64-f.bits))]))
}

// retain counts one more block at addr.
func (f *filter) retain(addr uint64) {
	for slot := f.slot(addr); ; {
		was := atomic.LoadUint64(slot)
		is := was + 1
		switch {
		case was == 0:
			is = addr<<8 | 1
		case was&255 == 255: // for good
			return
		}
		if atomic.CompareAndSwapUint64(slot, was, is) {
			return
		}
	}
}

// release counts one less.
func (f *filter) release(addr uint64) {
	for slot := f.slot(addr); ; {
		was := atomic.LoadUint64(slot)
		is := was - 1
		switch was & 255 {
		case 0, 255:
			return
		case 1:
			if is = 0; was>>8 != 0 && was>>8 != addr { // it is not there: events were lost
				return
			}
		case 2: // who knows which one stays
			is = 1
		}
		if atomic.CompareAndSwapUint64(slot, was, is) {
			return
		}
	}
}

func (f *filter) close() {
	if f != nil {
		_ = unix.Munmap(f.mem)
	}
}

// Retain counts one more live block at addr that is in the sample: a forked
// child's copy of its parent's.
func (t *Tracer) Retain(addr uint64) {
	if t.filter != nil {
		t.filter.retain(addr)
	}
}

// Release says that a block of the sample at addr has ended, where no event
// with event.FlagReleased told of it. Without, later frees there are reported for nothing.
func (t *Tracer) Release(addr uint64) {
	if t.filter != nil {
		t.filter.release(addr)
	}
}

// SetInterval changes the mean number of bytes between the sample's hits, from
// now on; 0 records every block. The Tracer must have been made for Sampling.
func (t *Tracer) SetInterval(bytes uint32) error {
	if !t.config.Sampling {
		return fmt.Errorf("set the sampling interval: the tracer was made to record every block")
	}
	if err := t.kernel.coll.Maps[bpf.MemtraceMapSampling].Put(uint32(bpf.MemtraceSamplingKeySAMPLING_INTERVAL), bytes); err != nil {
		return fmt.Errorf("set the sampling interval to %d bytes: %w", bytes, err)
	}
	return nil
}

// startSampling prepares the filter and sets the first interval.
func (t *Tracer) startSampling() (err error) {
	if !t.config.Sampling {
		return nil
	}
	if t.filter, err = openFilter(t.kernel.coll.Maps[bpf.MemtraceMapFilter]); err != nil {
		return err
	}
	if t.hits, err = openHits(t.kernel.coll.Maps[bpf.MemtraceMapHits]); err != nil {
		return err
	}
	return t.SetInterval(t.config.Interval)
}
