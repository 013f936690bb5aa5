package analyzer

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"testing"
	"time"

	"github.com/memtrace/memtrace/tracer/event"
)

// BenchmarkPauses has a heap of 50 million blocks grow and shrink, and the
// garbage collector run at its fullest, and reports what held up the events: the
// longest that a batch of them took, by this thread's processor time, so that
// what others do with the processor is left out; the garbage collector's longest
// pause; how long a Report takes, which looks at every live block while events wait, by the clock; and the memory of a block.
func BenchmarkPauses(b *testing.B) {
	const blocks = 50_000_000
	for b.Loop() {
		a := New(Config{})
		a.AddProcess(ProcessInfo{PID: 7})
		before := pauses()
		grown := longestBatch(a, blocks, func(e *event.Event, i uint64) {
			*e = event.Event{Kind: event.Alloc, Addr: pauseAddress(i), Size: 40, Time: i, PID: 7, TID: 8, Stack: event.StackID(i%1000 + 1)}
		})
		h := a.processes[0].heap
		if h.count != blocks {
			b.Fatalf("%d blocks are live, want %d", h.count, blocks)
		}
		bytes := float64(h.bytes()) / blocks
		began := time.Now()
		a.reportAt(blocks, ReportOptions{Top: 20}, nil)
		report := time.Since(began)
		runtime.GC()
		shrunk := longestBatch(a, blocks, func(e *event.Event, i uint64) {
			*e = event.Event{Kind: event.Free, Addr: pauseAddress(i), Time: blocks + i, PID: 7, TID: 8}
		})
		if h.count != 0 {
			b.Fatalf("%d blocks are live at the end", h.count)
		}
		a.Close()
		b.ReportMetric(float64(grown.Microseconds()), "longest-growing-µs")
		b.ReportMetric(float64(shrunk.Microseconds()), "longest-shrinking-µs")
		b.ReportMetric(longestPause(before, pauses()), "longest-gc-pause-µs")
		b.ReportMetric(float64(report.Milliseconds()), "report-ms")
		b.ReportMetric(bytes, "bytes/block")
	}
}

// pauseAddress is that of block i of many, one behind the other in no order.
func pauseAddress(i uint64) uint64 { return 0x7f0000000000 + i*0x9e3779b1%(1<<32)*48 }

// longestBatch applies n events in batches of the drain's size and returns how
// long the longest took.
func longestBatch(a *Analyzer, n uint64, fill func(e *event.Event, i uint64)) (longest time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	batch := make([]event.Event, 4096)
	for i := uint64(0); i < n; {
		batch = batch[:min(n-i, uint64(cap(batch)))]
		for k := range batch {
			fill(&batch[k], i)
			i++
		}
		began := threadTime()
		a.Apply(batch)
		longest = max(longest, threadTime()-began)
	}
	return longest
}

// pauses counts the pauses of the garbage collector by their lengths.
func pauses() *metrics.Float64Histogram {
	sample := []metrics.Sample{{Name: "/sched/pauses/total/gc:seconds"}}
	debug.FreeOSMemory() // collects
	metrics.Read(sample)
	h := sample[0].Value.Float64Histogram()
	return &metrics.Float64Histogram{Counts: slices.Clone(h.Counts), Buckets: h.Buckets}
}

// longestPause is the upper end, in µs, of the longest bucket that has grown.
func longestPause(before, after *metrics.Float64Histogram) (longest float64) {
	for i, n := range after.Counts {
		if n > before.Counts[i] && !math.IsInf(after.Buckets[i+1], 1) {
			longest = after.Buckets[i+1] * 1e6
		}
	}
	return longest
}
