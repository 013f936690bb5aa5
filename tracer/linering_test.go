package tracer

import (
	"slices"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/memtrace/memtrace/bpf"
	"github.com/memtrace/memtrace/tracer/event"
)

// fakeLineRing is an event ring in plain memory, written as bpf/headers/ring.h does.
type fakeLineRing struct {
	lineRing
	taken uint64
}

func newFakeLineRing(records int) *fakeLineRing {
	lines := records + int(bpf.MemtraceRingLayoutRING_RECORDS)
	return &fakeLineRing{lineRing: *newLineRing(nil, alignedBytes(lines*lineSize), records)}
}

// reserve takes the next line; false where the ring is full.
func (f *fakeLineRing) reserve() (at uint64, ok bool) {
	if f.taken-f.given() == 1<<f.bits {
		return 0, false
	}
	at = f.taken
	f.taken++
	atomic.StoreUint64(f.position(bpf.MemtraceRingLayoutRING_PRODUCER), f.taken)
	return at, true
}

func (f *fakeLineRing) given() uint64 {
	return atomic.LoadUint64(f.position(bpf.MemtraceRingLayoutRING_READER))
}

// commit writes a record to the line, its last word last.
func (f *fakeLineRing) commit(at uint64, record []byte) {
	line := f.mem[(int(at&(1<<f.bits-1))+int(bpf.MemtraceRingLayoutRING_RECORDS))*lineSize:]
	lap := uint16(at>>f.bits + 1)
	copy(line[headSize:], record[headSize:])
	copy(line[:lastWord], record)
	var last [8]byte
	copy(last[:], record[lastWord:])
	(*bpf.MemtraceRecordHead)(unsafe.Pointer(&line[0])).Cpu = 0
	word := *(*uint64)(unsafe.Pointer(&last[0]))&^(0xffff<<32) | uint64(lap)<<32
	atomic.StoreUint64((*uint64)(unsafe.Pointer(&line[lastWord])), word)
}

func (f *fakeLineRing) put(record []byte) bool {
	at, ok := f.reserve()
	if ok {
		f.commit(at, record)
	}
	return ok
}

func (f *fakeLineRing) times(t *testing.T) (times []uint64, end bool) {
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

func TestLineRingStopsAtUnfinishedRecord(t *testing.T) {
	f := newFakeLineRing(64)
	f.put(freeRecord(1, 10))
	at, _ := f.reserve()
	f.put(allocRecord(3, 30))
	if got, end := f.times(t); end || !slices.Equal(got, []uint64{1}) {
		t.Fatalf("read %v, to the end: %v; the second record is unfinished", got, end)
	}
	if f.given() != at {
		t.Errorf("gave back %d records, %d were read", f.given(), at)
	}
	f.commit(at, freeRecord(2, 20))
	if got, end := f.times(t); !end || !slices.Equal(got, []uint64{2, 3}) {
		t.Errorf("read %v, to the end: %v", got, end)
	}
}

// TestLineRingTellsLapsApart: what an earlier lap left in a line must not pass
// for the record that is being written there, on any lap.
func TestLineRingTellsLapsApart(t *testing.T) {
	const records = 2 // the lap's 16 bits wrap soon
	f := newFakeLineRing(records)
	for i := uint64(1); i < 3*records<<16; i++ {
		at, ok := f.reserve()
		if !ok {
			t.Fatalf("record %d: an empty ring is full", i)
		}
		if got, end := f.times(t); end || len(got) > 0 {
			t.Fatalf("record %d is unfinished, yet read: %v", i, got)
		}
		f.commit(at, freeRecord(i, i))
		if got, end := f.times(t); !end || !slices.Equal(got, []uint64{i}) {
			t.Fatalf("record %d: read %v, to the end: %v", i, got, end)
		}
	}
}

func TestLineRingGivesBackWhileReading(t *testing.T) {
	f := newFakeLineRing(4 * releaseEvery / lineSize)
	for f.put(allocRecord(1, 1)) {
	}
	most := uint64(0)
	f.drain(func([]byte) { most = max(most, f.pos-f.given()) })
	if most > releaseEvery/uint64(lineSize) {
		t.Errorf("%d records were read before the producers got any back", most)
	}
	if f.given() != f.taken {
		t.Errorf("gave back %d of %d records", f.given(), f.taken)
	}
}

func TestLineRingSurvivesHostilePositions(t *testing.T) {
	f := newFakeLineRing(64)
	f.put(freeRecord(1, 1))
	for _, pos := range []uint64{0, 1 << 63, ^uint64(0)} {
		atomic.StoreUint64(f.position(bpf.MemtraceRingLayoutRING_PRODUCER), pos)
		read := 0
		f.drain(func([]byte) { read++ })
		if read > 1 {
			t.Errorf("a ring with one record gave %d", read)
		}
	}
}
