package analyzer

import (
	"testing"

	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/tracer/event"
)

// withBlocks is an Analyzer that knows so many live blocks of so many sites.
func withBlocks(b *testing.B, blocks, sites uint64) *Analyzer {
	a := New(Config{Start: testStart})
	b.Cleanup(a.Close)
	a.AddProcess(ProcessInfo{PID: testPID})
	events := make([]event.Event, 0, 1<<12)
	for i := range blocks {
		if i < sites {
			a.Take(input.Stack{Stack: event.Stack{ID: event.StackID(i + 1), PID: testPID, Frames: []uint64{i, 5, 4, 3, 2, 1}}})
		}
		events = append(events, event.Event{
			Kind: event.Alloc, Time: testStart + i*100, PID: testPID, TID: 1,
			Addr: 0x1000 + 64*i, Size: 16 + i%48, Stack: event.StackID(1 + i%sites),
		})
		if len(events) == cap(events) {
			a.Take(&input.Events{Events: events})
			events = events[:0]
		}
	}
	a.Take(&input.Events{Events: events})
	return a
}

// BenchmarkCheckpoint makes one of a million live blocks of a thousand sites: copy is how long the goroutine that
// gives the analyzer its inputs is held up, inputs what the one that writes has to do.
func BenchmarkCheckpoint(b *testing.B) {
	const blocks = 1 << 20
	a := withBlocks(b, blocks, 1000)
	b.Run("copy", func(b *testing.B) {
		for b.Loop() {
			if c := a.Checkpoint(testStart); c.Blocks != blocks {
				b.Fatalf("%d blocks", c.Blocks)
			}
		}
	})
	b.Run("inputs", func(b *testing.B) {
		for b.Loop() {
			if err := a.Checkpoint(testStart).Inputs(func(input.Input) error { return nil }); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkSavepoint makes one of many blocks, and one of many sites.
func BenchmarkSavepoint(b *testing.B) {
	for _, c := range []struct {
		name          string
		blocks, sites uint64
	}{{"blocks", 1 << 20, 1}, {"sites", 1 << 17, 1 << 17}} {
		b.Run(c.name, func(b *testing.B) {
			a := withBlocks(b, c.blocks, c.sites)
			var bytes uint64
			for b.Loop() {
				bytes = a.Savepoint().Bytes()
			}
			each := float64(c.blocks)
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/each, "ns/each")
			b.ReportMetric(float64(bytes)/each, "B/each")
		})
	}
}
