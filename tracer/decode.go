package tracer

import (
	"math"
	"unsafe"

	"github.com/memtrace/memtrace/bpf"
	"github.com/memtrace/memtrace/tracer/event"
)

// Kinds and flags of records that are the tracer's own; bpf/headers/record.h.
const (
	recordStack     = 64
	recordStale     = 65
	recordMapped    = 66
	recordTruncated = 8
	recordWeighted  = 4
	recordFPGuess   = 16
	recordBottom    = 32
)

const (
	headSize    = int(unsafe.Sizeof(bpf.MemtraceRecordHead{}))
	allocSize   = int(unsafe.Sizeof(bpf.MemtraceRecordAlloc{}))
	reallocSize = int(unsafe.Sizeof(bpf.MemtraceRecordRealloc{}))
)

// decode fills e from a record other than a stack; false means that the
// record is malformed. It reads at fixed offsets of types generated from the
// BPF object, and allocates nothing. The CPU is for the caller to fill in: it
// is that of the ring.
func decode(record []byte, e *event.Event) bool {
	if len(record) < headSize {
		return false
	}
	h := (*bpf.MemtraceRecordHead)(unsafe.Pointer(&record[0]))
	// Field by field: a literal would be made elsewhere and copied.
	e.Time, e.Addr, e.PID, e.TID = h.Time, h.Addr, h.Tgid, h.Tid
	e.Kind, e.Flags = event.Kind(h.Kind), event.Flags(h.Flags)
	e.Size, e.Old, e.Began, e.Stack, e.Child = 0, 0, 0, 0, 0
	switch e.Kind {
	case event.Fault:
		return e.Flags&event.FaultTouch == 0 || decodeAlloc(record, e)
	case event.Free:
		e.Child = h.Aux
		return true
	case event.Alloc, event.AllocFailed, event.Mmap, event.Munmap, event.PoolChange:
		switch {
		case e.Kind == event.Alloc && e.Flags&recordWeighted != 0:
			return decodeWeighted(record, e)
		case e.Flags&event.FlagPooled != 0 && e.Kind <= event.AllocFailed:
			return decodePooled(record, e)
		}
		return decodeAlloc(record, e)
	case event.PoolBegin:
		return decodePooled(record, e)
	case event.Realloc, event.ReallocFailed, event.Mremap:
		if len(record) < reallocSize {
			return false
		}
		r := (*bpf.MemtraceRecordRealloc)(unsafe.Pointer(&record[0]))
		e.Old, e.Began = r.Old, r.Began
		return decodeAlloc(record, e)
	case event.Fork, event.Exec:
		e.Child = h.Aux
		return true
	case event.Exit:
		e.Size = uint64(h.Aux)
		return true
	}
	return false
}

// decodePooled reads what has a pool where a realloc has its block.
func decodePooled(record []byte, e *event.Event) bool {
	if len(record) < reallocSize {
		return false
	}
	e.Old = (*bpf.MemtraceRecordRealloc)(unsafe.Pointer(&record[0])).Old
	return decodeAlloc(record, e)
}

// decodeWeighted reads a block of a sample that its program takes itself.
func decodeWeighted(record []byte, e *event.Event) bool {
	if len(record) < reallocSize || !decodeAlloc(record, e) {
		return false
	}
	e.Flags &^= recordWeighted
	e.Child = sampledEvery(e.Size, (*bpf.MemtraceRecordRealloc)(unsafe.Pointer(&record[0])).Old)
	return true
}

// sampledEvery is the mean number of bytes between the hits of a sample in
// which a block of size bytes stands for weight bytes: it is in there with
// probability 1 - exp(-size / interval), the inverse of which times its size is
// the weight. 0: all blocks of the size are.
func sampledEvery(size, weight uint64) uint32 {
	size = max(size, 1)
	if weight <= size {
		return 0
	}
	interval := -float64(size) / math.Log1p(-float64(size)/float64(weight))
	return uint32(max(1, min(math.Round(interval), math.MaxUint32)))
}

func decodeAlloc(record []byte, e *event.Event) bool {
	if len(record) < allocSize {
		return false
	}
	a := (*bpf.MemtraceRecordAlloc)(unsafe.Pointer(&record[0]))
	e.Size, e.Stack, e.Child = a.Size, event.StackID(a.Stack), a.Head.Aux
	return true
}

// isStack reports whether the record is a stack.
func isStack(record []byte) bool {
	return len(record) >= headSize && (*bpf.MemtraceRecordHead)(unsafe.Pointer(&record[0])).Kind == recordStack
}

// decodeCode reads the process that runs code unknown to the unwinder, or, where
// kind is recordMapped, has mapped some.
func decodeCode(record []byte) (pid int, at uint64, kind uint8) {
	if len(record) < headSize {
		return 0, 0, 0
	}
	h := (*bpf.MemtraceRecordHead)(unsafe.Pointer(&record[0]))
	return int(h.Tgid), h.Time, h.Kind
}

// decodeStack copies a stack out of a record. The walk took at most depth frames.
func decodeStack(record []byte, depth int) (event.Stack, bool) {
	h := (*bpf.MemtraceRecordHead)(unsafe.Pointer(&record[0]))
	n := int(h.Aux)
	if n <= 0 || n > (len(record)-headSize)/8 {
		return event.Stack{}, false
	}
	s := event.Stack{
		ID: event.StackID(h.Addr), Time: h.Time, PID: h.Tgid,
		Truncated: h.Flags&recordTruncated != 0,
		Deeper:    h.Flags&recordTruncated != 0 && n >= depth,
		FPGuess:   h.Flags&recordFPGuess != 0,
		Bottom:    h.Flags&recordBottom != 0,
		Frames:    make([]uint64, n),
	}
	copy(s.Frames, unsafe.Slice((*uint64)(unsafe.Pointer(&record[headSize])), n))
	return s, true
}
