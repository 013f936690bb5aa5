package tracer

import (
	"testing"

	"github.com/memtrace/memtrace/tracer/event"
)

// Each iteration is one event, half of them allocations.

func BenchmarkDecode(b *testing.B) {
	records := [2][]byte{allocRecord(1, 2), freeRecord(3, 2)}
	var e event.Event
	b.ReportAllocs()
	for i := range b.N {
		if !decode(records[i&1], &e) {
			b.Fatal("malformed")
		}
	}
}

// BenchmarkMerge has two rings whose events alternate in runs of 16.
func BenchmarkMerge(b *testing.B) {
	m := newMerger(2)
	var sum uint64
	time, out := uint64(0), make([]event.Event, 0, batchEvents)
	b.ReportAllocs()
	for n := b.N; n > 0; n -= 4096 {
		for i := range min(n, 4096) {
			time++
			q := &m.queues[i>>4&1]
			*q.slot() = event.Event{Time: time}
			q.sortIn()
		}
		out = m.release(time+1, out[:0], func(full []event.Event) []event.Event {
			sum += uint64(len(full))
			return full[:0]
		})
		sum += uint64(len(out))
	}
	if sum != uint64(b.N) {
		b.Fatalf("%d of %d events came out", sum, b.N)
	}
}

// BenchmarkDrain takes events all the way from two rings to batches.
func BenchmarkDrain(b *testing.B) {
	const size = 1 << 20
	rings := [2]*fakeLineRing{newFakeLineRing(size / lineSize), newFakeLineRing(size / lineSize)}
	for i, f := range rings {
		for time := uint64(i); ; time += 2 {
			if !f.put(allocRecord(time, time)) || !f.put(freeRecord(time, time)) {
				break
			}
		}
	}
	d := &drain{
		rings: []source{&rings[0].lineRing, &rings[1].lineRing}, merger: newMerger(2),
		out: make(chan *Batch, maxBatches), batches: newBatches(),
	}
	b.ReportAllocs()
	b.ResetTimer()
	got := drainAgain(b, d, rings[:])
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(got), "ns/event")
}

// drainAgain takes the same records from the rings, again and again, until b.N
// events have come out, and returns how many did.
func drainAgain(b *testing.B, d *drain, rings []*fakeLineRing) (got int) {
	for got < b.N {
		for _, r := range rings {
			r.pos = 0
		}
		if !d.round(0) {
			b.Fatal("the drain has ended")
		}
		for len(d.out) > 0 {
			batch := <-d.out
			got += len(batch.Events)
			batch.Release()
		}
	}
	return got
}
