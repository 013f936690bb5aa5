package blocks

import (
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/tracer/event"
)

// A steady source has so many allocations, each in the place of one of 10,000 blocks that it frees.
func steady(allocations int) Source {
	return func(a *analyzer.Analyzer, told func(input.Input)) ([]string, error) {
		take := func(in input.Input) { a.Take(in); told(in) }
		take(input.Started{ProcessInfo: input.ProcessInfo{PID: 1, Comm: "steady"}})
		for i := range uint64(1000) {
			take(input.Stack{Stack: event.Stack{ID: stackID(i), PID: 1, Frames: []uint64{i, i / 10, 1}}})
		}
		random := rand.New(rand.NewPCG(1, 2))
		batch := &input.Events{Events: make([]event.Event, 0, 4096)}
		var time uint64
		for range allocations {
			slot := random.Uint64N(10_000)
			time += 500
			batch.Events = append(batch.Events, event.Event{Time: time, PID: 1, TID: 1, Kind: event.Free, Addr: 1<<32 + slot<<12},
				event.Event{Time: time + 100, PID: 1, TID: 1, Kind: event.Alloc, Addr: 1<<32 + slot<<12, Size: 16 + slot%500, Stack: stackID(slot % 1000)})
			if len(batch.Events) == cap(batch.Events) {
				take(batch)
				batch.Events = batch.Events[:0]
			}
		}
		take(batch)
		return nil, nil
	}
}

// What an event costs, both times through, and the most memory that was in use, by the collector's word.
func BenchmarkWrite(b *testing.B) {
	const allocations = 2_000_000
	for _, format := range Formats() {
		b.Run(format, func(b *testing.B) {
			written := &counting{}
			for b.Loop() {
				*written = counting{}
				if _, err := Write(written, steady(allocations), Options{Format: Format(format), Folder: b.TempDir()}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(b.Elapsed().Seconds()*1e9/float64(b.N)/(2*allocations), "ns/event")
			b.ReportMetric(float64(written.bytes)/(2*allocations), "bytes/event")
			b.ReportMetric(float64(written.most)/(1<<20), "MiB")
		})
	}
}

// counting throws away what is written. Now and then it looks at the memory in use.
type counting struct {
	bytes, looked int64
	most          uint64
}

func (c *counting) Write(p []byte) (int, error) {
	c.bytes += int64(len(p))
	if c.bytes-c.looked > 4<<20 {
		c.looked = c.bytes
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		c.most = max(c.most, m.HeapInuse)
	}
	return len(p), nil
}
