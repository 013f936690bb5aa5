package analyzer

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/tracer/event"
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

// threadTime is what this thread has taken.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic("read the thread's clock: " + err.Error()) // it always exists
	}
	return time.Duration(t.Nano())
}

// BenchmarkApplyAtScale applies what a big machine would send: many processes
// with ten threads each, whose events come in runs of 16, blocks mostly freed
// young, over a live heap of two million blocks in all.
func BenchmarkApplyAtScale(b *testing.B) {
	for _, processes := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("processes=%d", processes), func(b *testing.B) {
			const live, run = 2_000_000, 16
			a := New(Config{})
			defer a.Close()
			r := rand.New(rand.NewPCG(1, 2))
			heaps := make([]*churn, processes)
			for i := range heaps {
				pid := uint32(1000 + i)
				a.AddProcess(ProcessInfo{PID: pid})
				heaps[i] = newChurn(live / processes)
				heaps[i].young = true
				heaps[i].fill(live/processes, func(events []event.Event) { a.Apply(own(events, pid, r)) })
			}
			var spent time.Duration
			b.ResetTimer()
			done := 0
			for done < b.N {
				b.StopTimer()
				var all []event.Event
				for len(all) < benchBatch {
					i := r.IntN(processes)
					h := heaps[i]
					h.batch = h.batch[:0]
					for range run / 2 {
						h.release()
						h.alloc()
					}
					all = append(all, own(h.batch, uint32(1000+i), r)...)
				}
				began := processorTime(b)
				b.StartTimer()
				a.Apply(all)
				b.StopTimer()
				spent += processorTime(b) - began
				b.StartTimer()
				done += len(all)
			}
			b.ReportMetric(float64(spent)/float64(done), "cpu-ns/event")
		})
	}
}

// own gives events to a process and one of its ten threads.
func own(events []event.Event, pid uint32, r *rand.Rand) []event.Event {
	for i := range events {
		events[i].PID, events[i].TID = pid, pid*100+r.Uint32N(10)
	}
	return events
}
