// Package ownthread runs functions on OS threads of their own.
//
// The kernel keeps some state per thread and drops it when the thread ends: what the thread has attached to by ptrace,
// its priority, its namespaces. Go ends the thread of a goroutine that returns while locked to it, but never the
// process's main thread, which it parks instead. A goroutine that happens to run there would keep that state for as
// long as the process lives: a target that did not stop in time would stay seized. So the thread is never that one.
package ownthread

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Thread is an OS thread that runs one function and ends with it.
type Thread struct {
	tid  int
	done chan struct{} // closed when the function has returned
}

// Go runs fn on a thread of its own and returns at once.
func Go(fn func()) *Thread {
	t := &Thread{done: make(chan struct{})}
	go t.run(fn)
	return t
}

// Do runs fn on a thread of its own and waits until that thread is gone, and with it what the kernel kept for it.
func Do(fn func()) { Go(fn).Wait() }

// ErrNoAnswer means that a call into the kernel has not returned in time.
var ErrNoAnswer = errors.New("no answer")

// After runs first on a thread of its own, and then second on the same one. It returns once first has. Where that takes
// longer than limit, as a system call may that waits for another process, it returns ErrNoAnswer: second does not run
// then, and the thread ends when first returns after all. What first writes may only be read where there is no error.
func After(limit time.Duration, first, second func()) (*Thread, error) {
	var claimed atomic.Bool
	ready := make(chan struct{})
	t := Go(func() {
		first()
		if claimed.CompareAndSwap(false, true) {
			close(ready)
			second()
		}
	})
	select {
	case <-ready:
	case <-time.After(limit):
		if claimed.CompareAndSwap(false, true) {
			return nil, fmt.Errorf("%w within %v", ErrNoAnswer, limit)
		}
	}
	return t, nil
}

// run holds the main thread, if it is on that, until the next attempt has got another.
func (t *Thread) run(fn func()) {
	runtime.LockOSThread()
	if unix.Gettid() != unix.Getpid() {
		t.call(fn)
		return
	}
	elsewhere := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		close(elsewhere)
		t.call(fn)
	}()
	<-elsewhere
	runtime.UnlockOSThread()
}

func (t *Thread) call(fn func()) {
	t.tid = unix.Gettid()
	defer close(t.done)
	fn()
}

const (
	endPoll  = 200 * time.Microsecond
	endPolls = 10_000 // a debugger of ours may keep the ended thread: then we don't wait for ever
)

// Wait returns once fn has returned and its thread is gone. Others may wait as well.
func (t *Thread) Wait() {
	<-t.done
	for range endPolls {
		if unix.Tgkill(unix.Getpid(), t.tid, 0) != nil {
			return
		}
		time.Sleep(endPoll)
	}
}
