package ownthread

import (
	"os"
	"runtime"
	"testing"

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
