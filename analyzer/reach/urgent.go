//go:build linux && !viewer

package reach

import (
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A thread that loses its processor while it has the mmap lock keeps a writer
// from it for as long as others run. So it runs as a real-time thread while it
// may have it, for tens of microseconds at a time and half of the time at most;
// what it starts meanwhile would not (SCHED_FLAG_RESET_ON_FORK). See sched(7).
var (
	usualPolicy = sync.OnceValue(func() *unix.SchedAttr {
		switch a, err := unix.SchedGetAttr(0, 0); {
		case err != nil, a.Policy == unix.SCHED_FIFO, a.Policy == unix.SCHED_RR, a.Policy == unix.SCHED_DEADLINE:
			return nil // memtrace was started with a priority: it keeps that
		default:
			a.Runtime = 0 // of a time slice, from Linux 6.12 on: the usual one
			return a
		}
	})
	// notUrgent is set where the kernel permits no real-time threads.
	notUrgent atomic.Bool
)

// urgent makes the present thread a real-time one until done is called. Without
// CAP_SYS_NICE, or where the control group has no share of real time, it changes nothing.
func urgent() (done func()) {
	if notUrgent.Load() || usualPolicy() == nil {
		return func() {}
	}
	runtime.LockOSThread()
	fifo := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Flags: unix.SCHED_FLAG_RESET_ON_FORK, Priority: 1}
	if err := unix.SchedSetAttr(0, &fifo, 0); err != nil {
		notUrgent.Store(true)
		runtime.UnlockOSThread()
		return func() {}
	}
	return usual
}

// usual takes it back. A thread may always give up its priority; that it is
// reset on fork, only with CAP_SYS_NICE.
func usual() {
	policy := *usualPolicy() // the call writes to it
	if unix.SchedSetAttr(0, &policy, 0) != nil {
		policy.Flags |= unix.SCHED_FLAG_RESET_ON_FORK
		_ = unix.SchedSetAttr(0, &policy, 0)
	}
	runtime.UnlockOSThread()
}
