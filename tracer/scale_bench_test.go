package tracer

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// processorTime is what this process has taken, the garbage collector included:
// unlike the clock, it does not count what others do meanwhile.
func processorTime(b *testing.B) time.Duration {
	var ru unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &ru); err != nil {
		b.Fatal(err)
	}
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}

// BenchmarkDrainByCPUs takes events from the rings of many CPUs to batches: all
// CPUs produce at the same rate, so that neighbours in time come from different rings.
func BenchmarkDrainByCPUs(b *testing.B) {
	for _, cpus := range []int{2, 64, 256} {
		b.Run(fmt.Sprintf("cpus=%d", cpus), func(b *testing.B) {
			const events = 1 << 20
			d := &drain{merger: newMerger(cpus), out: make(chan *Batch, maxBatches), batches: newBatches()}
			rings := make([]*fakeLineRing, cpus)
			for i := range rings {
				rings[i] = newFakeLineRing(events / cpus)
				d.rings = append(d.rings, &rings[i].lineRing)
			}
			for at := range uint64(events) {
				rings[at*31%uint64(cpus)].put(allocRecord(at, at))
			}
			b.ReportAllocs()
			b.ResetTimer()
			began := processorTime(b)
			got := drainAgain(b, d, rings)
			b.ReportMetric(float64(processorTime(b)-began)/float64(got), "cpu-ns/event")
		})
	}
}
