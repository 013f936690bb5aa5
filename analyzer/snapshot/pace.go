//go:build linux && !viewer

package snapshot

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// perPage is what a resident page takes in the kernel's walk, perMapping what
// the kernel takes to render a mapping, and perProcess what every walk takes.
const (
	perPage    = 22 * time.Nanosecond
	perMapping = 2 * time.Microsecond
	perProcess = 20 * time.Microsecond
)

// predict says how long a process's mmap lock is going to be held.
func predict(pages uint64, mappings int) time.Duration {
	return perProcess + time.Duration(min(pages, 1<<40))*perPage + time.Duration(mappings)*perMapping
}

// spread is for how long a walk is drawn out to keep to the stall budget. The
// budget of one second is given in advance, so that a small process waits for
// nothing.
func spread(hold, budget time.Duration) time.Duration {
	if budget <= 0 || hold <= budget {
		return 0
	}
	return time.Duration(float64(hold-budget) * float64(time.Second) / float64(budget))
}

// pace spreads the steps of a walk.
type pace struct {
	budget  time.Duration
	rest    func(time.Duration) error
	began   time.Time
	at      time.Duration // of the thread's processor time, as the present step began
	held    time.Duration
	stopped error
}

// startPace begins a walk, which stays on its thread until end.
func startPace(budget time.Duration, rest func(time.Duration) error) *pace {
	runtime.LockOSThread()
	return &pace{budget: budget, rest: rest, began: time.Now(), at: threadTime()}
}

// step ends a step and waits until the next may begin; false means that the
// time is up.
func (p *pace) step() bool {
	p.count()
	wait := spread(p.held, p.budget) - time.Since(p.began)
	if p.budget <= 0 || wait <= 0 {
		return true
	}
	runtime.UnlockOSThread()
	p.stopped = p.rest(wait)
	runtime.LockOSThread()
	p.at = threadTime()
	return p.stopped == nil
}

// count takes the processor time since the step began for the lock's: most of
// it is. Time in which others had the processor is not the walk's, and would
// make it wait the longer the busier the machine is.
func (p *pace) count() {
	now := threadTime()
	p.held += now - p.at
	p.at = now
}

// end ends the walk; held is then what it held the lock for.
func (p *pace) end() {
	p.count()
	runtime.UnlockOSThread()
}

// threadTime is the processor time that this thread has used.
func threadTime() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts) != nil {
		return 0 // never on Linux: every thread has this clock
	}
	return time.Duration(ts.Nano())
}
