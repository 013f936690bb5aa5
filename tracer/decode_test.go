package tracer

import (
	"math"
	"slices"
	"testing"
	"unsafe"

	"github.com/memtrace/memtrace/bpf"
	"github.com/memtrace/memtrace/tracer/event"
)

func TestDecode(t *testing.T) {
	head := bpf.MemtraceRecordHead{Time: 5, Addr: 0x1000, Tgid: 10, Tid: 11, Aux: 12, Cpu: 3}
	common := event.Event{Time: 5, Addr: 0x1000, PID: 10, TID: 11}
	for kind := event.Alloc; kind <= event.Mremap; kind++ {
		r := bpf.MemtraceRecordRealloc{Old: 0x2000, Began: 4}
		r.Alloc = bpf.MemtraceRecordAlloc{Head: head, Size: 64, Stack: 7}
		r.Alloc.Head.Kind = uint8(kind)
		want := common
		want.Kind = kind
		if kind != event.Fault && kind != event.Exit {
			want.Child = 12 // the sampling interval, or what the kind has there
		}
		length := headSize
		switch kind {
		case event.PoolBegin:
			want.Size, want.Stack, want.Old, length = 64, 7, 0x2000, reallocSize
		case event.Alloc, event.AllocFailed, event.Mmap, event.Munmap, event.PoolChange:
			want.Size, want.Stack, length = 64, 7, allocSize
		case event.Realloc, event.ReallocFailed, event.Mremap:
			want.Size, want.Stack, want.Old, want.Began, length = 64, 7, 0x2000, 4, reallocSize
		case event.Exit:
			want.Size = 12
		}
		record := unsafe.Slice((*byte)(unsafe.Pointer(&r)), length)
		got := event.Event{Old: 99, Stack: 99, Child: 99} // of the slot's last use
		if !decode(record, &got) || got != want {
			t.Errorf("%v: got %+v, want %+v", kind, got, want)
		}
		for n := range length {
			if decode(record[:n], &got) {
				t.Errorf("%v: %d of its %d bytes pass for the whole", kind, n, length)
			}
		}
	}
}

// An allocation from a pool has the pool where a realloc has its block.
func TestDecodePooled(t *testing.T) {
	r := bpf.MemtraceRecordRealloc{Old: 0x2000, Began: 4}
	r.Alloc = bpf.MemtraceRecordAlloc{Head: bpf.MemtraceRecordHead{Addr: 0x1000, Kind: uint8(event.Alloc)}, Size: 64}
	record := unsafe.Slice((*byte)(unsafe.Pointer(&r)), reallocSize)
	for flags, pool := range map[event.Flags]uint64{0: 0, event.FlagPooled: 0x2000} {
		r.Alloc.Head.Flags = uint8(flags)
		var e event.Event
		if !decode(record, &e) || e.Pool() != pool || e.Size != 64 || e.Began != 0 {
			t.Errorf("flags %d: %+v, pool %#x", flags, e, e.Pool())
		}
	}
	r.Alloc.Head.Flags = uint8(event.FlagPooled)
	if decode(record[:allocSize], new(event.Event)) {
		t.Error("a record without its pool passes for one with")
	}
}

func TestDecodeRefusesUnknownKinds(t *testing.T) {
	record := freeRecord(1, 2)
	for _, kind := range []byte{0, byte(event.Mremap) + 1, recordStack - 1, 255} {
		record[unsafe.Offsetof(bpf.MemtraceRecordHead{}.Kind)] = kind
		var e event.Event
		if decode(record, &e) {
			t.Errorf("kind %d passes for %v", kind, e.Kind)
		}
	}
}

func TestDecodeStack(t *testing.T) {
	r := bpf.MemtraceStackRecord{Frames: [128]uint64{100, 200, 300}}
	r.Head = bpf.MemtraceRecordHead{Addr: 77, Tgid: 10, Aux: 3, Kind: recordStack, Flags: recordTruncated}
	record := unsafe.Slice((*byte)(unsafe.Pointer(&r)), headSize+3*8)
	s, ok := decodeStack(record, MaxStackDepth)
	if !ok || !isStack(record) || s.ID != 77 || s.PID != 10 || !s.Truncated || s.Deeper || !slices.Equal(s.Frames, []uint64{100, 200, 300}) {
		t.Errorf("got %+v, %v", s, ok)
	}
	if s, ok := decodeStack(record, 3); !ok || !s.Deeper {
		t.Errorf("a stack of 3 frames, the most there can be: %+v, %v", s, ok)
	}
	if _, ok := decodeStack(record[:len(record)-8], MaxStackDepth); ok {
		t.Error("a stack with a frame less than it says was taken")
	}
}

// The weight of a block of s bytes in a sample of one hit every so many bytes
// is s / (1 - exp(-s / interval)), in whole bytes.
func TestSampledEvery(t *testing.T) {
	for _, interval := range []float64{1, 1000, 65536, 512 << 10, 1 << 30} {
		for _, part := range []float64{1e-3, 0.1, 1, 4} {
			size := math.Max(1, math.Round(interval*part))
			weight := math.Round(size / -math.Expm1(-size/interval))
			got := float64(sampledEvery(uint64(size), uint64(weight)))
			if interval > 1 && math.Abs(got-interval) > 1+interval/200 {
				t.Errorf("a block of %g bytes that stands for %g: one hit every %g, want %g", size, weight, got, interval)
			}
		}
	}
	for _, c := range []struct {
		size, weight uint64
		want         uint32
	}{{100, 100, 0}, {100, 0, 0}, {100, 7, 0}, {0, 0, 0}, {0, 1, 0}, {1, math.MaxUint64, math.MaxUint32}, {math.MaxUint64, math.MaxUint64, 0}} {
		if got := sampledEvery(c.size, c.weight); got != c.want {
			t.Errorf("a block of %d bytes that stands for %d: %d, want %d", c.size, c.weight, got, c.want)
		}
	}
}

// A weighted allocation becomes one with an interval; one that is cut off is refused.
func TestDecodeWeighted(t *testing.T) {
	r := bpf.MemtraceRecordRealloc{Old: 66037}
	r.Alloc.Head.Kind, r.Alloc.Head.Flags = uint8(event.Alloc), recordWeighted
	r.Alloc.Head.Addr, r.Alloc.Size, r.Alloc.Stack = 0x1000, 1000, 7
	record := unsafe.Slice((*byte)(unsafe.Pointer(&r)), reallocSize)
	var e event.Event
	if !decode(record, &e) || e.Size != 1000 || e.Addr != 0x1000 || e.Stack != 7 || e.Flags != 0 || e.Old != 0 || e.Interval() < 65500 || e.Interval() > 65570 {
		t.Errorf("decoded %+v", e)
	}
	if decode(record[:allocSize], &e) {
		t.Error("a record without its weight is decoded")
	}
}
