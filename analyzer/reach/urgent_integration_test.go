//go:build integration

package reach

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// A thread is a real-time one while it may have another's lock, and no longer;
// one that it starts meanwhile is none.
func TestBrieflyIsUrgent(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	scheduling := func() unix.SchedAttr {
		a, err := unix.SchedGetAttr(0, 0)
		if err != nil {
			t.Fatal(err)
		}
		return *a
	}
	before := scheduling()
	if before.Policy == unix.SCHED_FIFO || before.Policy == unix.SCHED_RR {
		t.Fatal("the test itself runs as a real-time process: start it without chrt")
	}
	var within uint32
	n, err := Briefly(func() (int, error) {
		a, err := unix.SchedGetAttr(0, 0)
		within = a.Policy
		if a.Flags&unix.SCHED_FLAG_RESET_ON_FORK == 0 {
			t.Error("threads that start meanwhile are real-time ones")
		}
		return 7, err
	})
	if n != 7 || err != nil || within != unix.SCHED_FIFO {
		t.Errorf("%d, %v with policy %d, want 7 and no error with %d", n, err, within, unix.SCHED_FIFO)
	}
	after := scheduling()
	before.Runtime, after.Runtime = 0, 0 // its time slice, where the kernel tells it
	if after != before {
		t.Errorf("%+v afterwards, want %+v as before", after, before)
	}
}
