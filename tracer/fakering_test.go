package tracer

import (
	"os"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/memtrace/memtrace/bpf"
	"github.com/memtrace/memtrace/tracer/event"
)

// fakeRing is a ring in plain memory, written as kernel/bpf/ringbuf.c does.
type fakeRing struct {
	ring
	head uint64 // the producer's position
}

func newFakeRing(size int) *fakeRing {
	page := os.Getpagesize()
	return &fakeRing{ring: ring{
		consumer: alignedBytes(page), producer: alignedBytes(page), data: alignedBytes(2 * size), mask: uint64(size - 1),
	}}
}

// alignedBytes is memory for 8-byte words.
func alignedBytes(n int) []byte {
	words := make([]uint64, n/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), n)
}

// reserve makes room for a record of n bytes and marks it busy. It returns
// where the record is; false where the ring is full.
func (f *fakeRing) reserve(n int) (at uint64, ok bool) {
	total := uint64(ringHeaderSize+n+7) &^ 7
	consumed := atomic.LoadUint64((*uint64)(unsafe.Pointer(&f.consumer[0])))
	if f.head+total-consumed > f.mask+1 {
		return 0, false
	}
	at = f.head
	f.setHeader(at, uint32(n)|ringBusy)
	f.head += total
	atomic.StoreUint64((*uint64)(unsafe.Pointer(&f.producer[0])), f.head)
	return at, true
}

// setHeader writes to both copies of the data, which are one memory in the kernel.
func (f *fakeRing) setHeader(at uint64, header uint32) {
	for _, i := range f.copies(at) {
		atomic.StoreUint32((*uint32)(unsafe.Pointer(&f.data[i])), header)
	}
}

func (f *fakeRing) copies(at uint64) [2]uint64 {
	i := at & f.mask
	return [2]uint64{i, i + f.mask + 1}
}

// fill writes a reserved record.
func (f *fakeRing) fill(at uint64, record []byte) {
	for j, b := range record {
		i := (at + ringHeaderSize + uint64(j)) & f.mask
		f.data[i], f.data[i+f.mask+1] = b, b
	}
}

func (f *fakeRing) commit(at uint64, n int) { f.setHeader(at, uint32(n)) }

func (f *fakeRing) discard(at uint64, n int) { f.setHeader(at, uint32(n)|ringDiscard) }

// put reserves, fills and commits.
func (f *fakeRing) put(record []byte) bool {
	at, ok := f.reserve(len(record))
	if ok {
		f.fill(at, record)
		f.commit(at, len(record))
	}
	return ok
}

// allocRecord is an allocation as the kernel half writes it.
func allocRecord(time, addr uint64) []byte {
	r := bpf.MemtraceRecordAlloc{Size: 64, Stack: 7}
	r.Head = bpf.MemtraceRecordHead{Time: time, Addr: addr, Tgid: 1, Tid: 2, Kind: uint8(event.Alloc)}
	return append([]byte(nil), recordBytes(&r)...)
}

func recordBytes(r *bpf.MemtraceRecordAlloc) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(r)), allocSize)
}

// freeRecord is a free as the kernel half writes it.
func freeRecord(time, addr uint64) []byte {
	r := bpf.MemtraceRecordHead{Time: time, Addr: addr, Tgid: 1, Tid: 2, Kind: uint8(event.Free)}
	return append([]byte(nil), unsafe.Slice((*byte)(unsafe.Pointer(&r)), headSize)...)
}

// times drains the ring and returns the times of its records.
func (f *fakeRing) times(t *testing.T) (times []uint64, end bool) {
	t.Helper()
	end = f.drain(func(record []byte) {
		var e event.Event
		if !decode(record, &e) {
			t.Fatalf("malformed record %x", record)
		}
		times = append(times, e.Time)
	})
	return times, end
}
