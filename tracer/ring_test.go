package tracer

import (
	"slices"
	"sync/atomic"
	"testing"
	"unsafe"
)

func (f *fakeRing) consumed() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Pointer(&f.consumer[0])))
}

func TestRingStopsAtUnfinishedRecord(t *testing.T) {
	f := newFakeRing(4096)
	f.put(freeRecord(1, 10))
	at, _ := f.reserve(headSize)
	f.put(freeRecord(3, 30))
	if got, end := f.times(t); end || !slices.Equal(got, []uint64{1}) {
		t.Fatalf("read %v, to the end: %v; the second record is unfinished", got, end)
	}
	if f.consumed() != at {
		t.Errorf("gave back %d bytes, %d were read", f.consumed(), at)
	}
	f.fill(at, freeRecord(2, 20))
	f.commit(at, headSize)
	if got, end := f.times(t); !end || !slices.Equal(got, []uint64{2, 3}) {
		t.Errorf("read %v, to the end: %v", got, end)
	}
	if f.consumed() != f.head {
		t.Errorf("gave back %d of %d bytes", f.consumed(), f.head)
	}
}

func TestRingSkipsDiscardedRecords(t *testing.T) {
	f := newFakeRing(4096)
	f.put(freeRecord(1, 10))
	at, _ := f.reserve(allocSize)
	f.discard(at, allocSize)
	f.put(freeRecord(3, 30))
	if got, end := f.times(t); !end || !slices.Equal(got, []uint64{1, 3}) {
		t.Errorf("read %v, to the end: %v", got, end)
	}
}

// TestRingWraps sends many times what the ring holds, in records that cross
// its end at every possible place.
func TestRingWraps(t *testing.T) {
	f := newFakeRing(4096)
	var sent, got []uint64
	for i := uint64(1); len(sent) < 1000; i++ {
		record := freeRecord(i, i)
		if i%3 == 0 {
			record = allocRecord(i, i)
		}
		if f.put(record) {
			sent = append(sent, i)
			continue
		}
		read, end := f.times(t)
		if !end || len(read) == 0 {
			t.Fatalf("a full ring gave %d records, to the end: %v", len(read), end)
		}
		got = append(got, read...)
	}
	read, _ := f.times(t)
	if got = append(got, read...); !slices.Equal(got, sent) {
		t.Errorf("sent %d records, read %d others or in another order", len(sent), len(got))
	}
}

// TestRingGivesBackWhileReading: producers must not wait for the end of a long read.
func TestRingGivesBackWhileReading(t *testing.T) {
	f := newFakeRing(4 * releaseEvery)
	for f.put(allocRecord(1, 1)) {
	}
	most := uint64(0)
	f.drain(func([]byte) { most = max(most, f.pos-f.consumed()) })
	if most > releaseEvery+uint64(allocSize)+ringHeaderSize {
		t.Errorf("%d bytes were read before the producers got any back", most)
	}
}

// TestRingLeavesWhatComesMeanwhile: a read ends even if producers never pause.
func TestRingLeavesWhatComesMeanwhile(t *testing.T) {
	f := newFakeRing(4096)
	f.put(freeRecord(1, 1))
	seen := 0
	f.drain(func([]byte) {
		seen++
		f.put(freeRecord(2, 2))
	})
	if seen != 1 {
		t.Errorf("read %d records, of which %d came during the read", seen, seen-1)
	}
}
