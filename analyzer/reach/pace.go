//go:build linux && !viewer

package reach

import (
	"time"

	"golang.org/x/sys/unix"
)

// A running program must get at its mmap lock between our readings. A call
// holds it for microseconds, but one after the other can keep a writer from it
// for a tick and more: until then readers may take the lock before a writer that
// waits, who has been woken and is not there yet (kernel/locking/rwsem.c,
// rwsem_down_read_slowpath and RWSEM_WAIT_TIMEOUT).
const (
	// paceEvery is how often all workers leave the lock alone, at the same time.
	paceEvery = 300 * time.Microsecond
	// paceGap is for how long: a writer is woken and takes the lock meanwhile,
	// after a call of the usual length that began shortly before.
	paceGap = 150 * time.Microsecond
	// paceSlack is by how much the kernel may lengthen it.
	paceSlack = time.Microsecond
)

// Briefly makes a call that takes the mmap lock of a running process, when and
// how it keeps the process from the lock for as short as can be.
func Briefly(call func() (int, error)) (int, error) {
	pace()
	defer urgent()()
	return call()
}

// pace returns once the lock of a running process may be asked for: not in the
// gap at the beginning of each period, which is that of a clock, so that all who
// read have the same.
func pace() {
	since := time.Since(paceOrigin) % paceEvery
	if since >= paceGap {
		return
	}
	// By the system call: Go's own timers are rounded up to a millisecond where
	// there is nothing else to do. Cut short by a signal it does no harm.
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(paceSlack), 0, 0, 0) // else it sleeps for half as long again
	rest := unix.NsecToTimespec(int64(paceGap - since))
	_ = unix.Nanosleep(&rest, nil)
}

var paceOrigin = time.Now()
