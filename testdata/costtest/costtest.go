// Package costtest holds what reads hostile input to what that may cost: the processor time and memory that memtrace gives
// to any file of 64 MB or less. Inputs of a fuzz test are small, so that one that comes near stands for a fault.
package costtest

import (
	"runtime"
	"runtime/metrics"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	maxTime  = 5 * time.Second
	maxBytes = 256 << 20 // ever allocated, so what is held is less
)

// Bound fails the test where what comes between its call and that of the function that it returns takes more than an input
// may. Other goroutines' allocations count, and time of this one's thread alone: a busy machine does not matter.
//
//	defer costtest.Bound(t)()
func Bound(t testing.TB) func() {
	t.Helper()
	return bound(t, maxTime, maxBytes)
}

func bound(t testing.TB, longest time.Duration, most uint64) func() {
	t.Helper()
	runtime.LockOSThread() // whose time it is
	began, before := threadTime(t), allocated()
	return func() {
		t.Helper()
		defer runtime.UnlockOSThread()
		if took := threadTime(t) - began; took > longest {
			t.Errorf("it took %v of processor time", took)
		}
		if bytes := allocated() - before; bytes > most {
			t.Errorf("it allocated %d bytes", bytes)
		}
	}
}

func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

func threadTime(t testing.TB) time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
		t.Fatal(err)
	}
	return time.Duration(now.Nano())
}
