package ownthread

import (
	"errors"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func init() { runtime.LockOSThread() } // TestMain runs on the main thread

// onMain is which thread a function ran on that was begun on the main thread.
var onMain int

func TestMain(m *testing.M) {
	if unix.Gettid() != unix.Getpid() {
		panic("TestMain does not run on the main thread")
	}
	thread := &Thread{done: make(chan struct{})}
	thread.run(func() { onMain = unix.Gettid() })
	thread.Wait()
	os.Exit(m.Run())
}

func TestNeverTheMainThread(t *testing.T) {
	if onMain == 0 || onMain == unix.Getpid() {
		t.Errorf("begun on the main thread %d, the function ran on thread %d, want another", unix.Getpid(), onMain)
	}
	if unix.Tgkill(unix.Getpid(), onMain, 0) == nil {
		t.Errorf("thread %d lives on", onMain)
	}
}

func TestThreadEndsWithItsFunction(t *testing.T) {
	for name, fn := range map[string]func(){"returns": func() {}, "ends the goroutine": runtime.Goexit} {
		tid := 0
		Do(func() {
			tid = unix.Gettid()
			fn()
		})
		if err := unix.Tgkill(unix.Getpid(), tid, 0); err != unix.ESRCH {
			t.Errorf("%s: signal to thread %d: %v, want %v", name, tid, err, unix.ESRCH)
		}
	}
}

// TestAfter: what comes second runs on the same thread, and not at all where what comes first took too long; that thread
// ends when it can.
func TestAfter(t *testing.T) {
	var first, second int
	thread, err := After(time.Hour, func() { first = unix.Gettid() }, func() { second = unix.Gettid() })
	if err != nil {
		t.Fatal(err)
	}
	thread.Wait()
	if first == 0 || first != second {
		t.Errorf("first on thread %d, second on %d, want the same", first, second)
	}

	release, tid := make(chan struct{}), make(chan int, 1)
	thread, err = After(time.Millisecond, func() { tid <- unix.Gettid(); <-release }, func() { t.Error("second runs though first came late") })
	if thread != nil || !errors.Is(err, ErrNoAnswer) {
		t.Errorf("%v, error %v, want %v", thread, err, ErrNoAnswer)
	}
	close(release)
	for id := <-tid; unix.Tgkill(unix.Getpid(), id, 0) == nil; { // until the test's own time is over
		time.Sleep(time.Millisecond)
	}
}
