package analyzer

import (
	"testing"

	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/tracer/event"
)

// BenchmarkCheckpoint makes one of a million live blocks of a thousand sites: copy is how long the goroutine that
// gives the analyzer its inputs is held up, inputs what the one that writes has to do.
func BenchmarkCheckpoint(b *testing.B) {
	a := New(Config{Start: testStart})
	defer a.Close()
	a.AddProcess(ProcessInfo{PID: testPID})
	const blocks = 1 << 20
	events := make([]event.Event, 0, 1<<12)
	for i := range uint64(blocks) {
		if i < 1000 {
			a.Take(input.Stack{Stack: event.Stack{ID: event.StackID(i + 1), PID: testPID, Frames: []uint64{i, 5, 4, 3, 2, 1}}})
		}
		events = append(events, event.Event{Kind: event.Alloc, Time: testStart + i*100, PID: testPID, TID: 1, Addr: 0x1000 + 64*i, Size: 16 + i%48, Stack: event.StackID(1 + i*i%1000)})
		if len(events) == cap(events) {
			a.Take(&input.Events{Events: events})
			events = events[:0]
		}
	}
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
