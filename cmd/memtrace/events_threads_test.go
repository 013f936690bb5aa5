//go:build linux && !viewer

package main

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/procfs/ownthread"
	"github.com/memtrace/memtrace/tracer/event"
)

// A thread that has ended before its first event is read is called as it was when the trace began, and no thread of
// another process is.
func TestEndedThreadsHaveNames(t *testing.T) {
	fs, err := procfs.New("/proc")
	if err != nil {
		t.Fatal(err)
	}
	p := thisProcess(t)
	o := &eventOutput{fs: fs, threads: make(map[threadID]string), begun: make(map[threadID]string)}
	tid := 0
	ownthread.Do(func() {
		tid = unix.Gettid()
		if err := os.WriteFile(fmt.Sprintf("/proc/self/task/%d/comm", tid), []byte("worker"), 0); err != nil {
			t.Error(err)
		}
		o.began(p)
	})
	pid := uint32(os.Getpid())
	if name := o.thread(&event.Event{PID: pid, TID: uint32(tid)}); name != "worker" {
		t.Errorf("it is called %q, want worker", name)
	}
	if name := o.thread(&event.Event{PID: pid + 1<<30, TID: uint32(tid)}); name != "" {
		t.Errorf("one of another process is called %q", name)
	}
}
