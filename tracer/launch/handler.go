package launch

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A crash handler has its program taken under ptrace after a fault, by a child or by a process that waits for that, and
// often by system calls of its own, which no probe sees. So a thread that a fault's signal is delivered to is stopped at
// each of its system calls until its handler returns, and its program is detached before it lets another trace it.

// faults are the signals that crash handlers handle.
var faults = []unix.Signal{unix.SIGSEGV, unix.SIGBUS, unix.SIGILL, unix.SIGFPE, unix.SIGABRT, unix.SIGTRAP, unix.SIGSYS}

const (
	// maxHandlerStops bounds at how many stops a handler is followed: twice its system calls.
	maxHandlerStops = 4096
	// maxUnfinished bounds how many handlers of a program are followed of which no return is seen. A program that jumps
	// out of its handlers lives with its faults, and would be slowed down by each.
	maxUnfinished = 16
)

// deliver resumes a thread with a signal.
func (w *Watcher) deliver(tid, signal int) {
	p := w.owner[tid]
	if p != nil && w.hooks.Tracing != nil && slices.Contains(faults, unix.Signal(signal)) {
		if w.handlers[tid] > 0 {
			p.unfinished++
		}
		if p.unfinished < maxUnfinished && p.catches(tid, signal) {
			w.handlers[tid] = maxHandlerStops
		}
	}
	w.resume(tid, signal)
}

// inheritHandler follows a child that was made in a handler, as it does what its parent would.
func (w *Watcher) inheritHandler(child int) {
	if len(w.handlers) == 0 {
		return
	}
	parent := statusOf(child, "PPid")
	for tid := range w.handlers {
		if p := w.owner[tid]; p != nil && p.pid == parent {
			w.handlers[child] = maxHandlerStops
			return
		}
	}
}

// handlerCalled follows a handler past a stop at a system call. It reports whether the handler is about to let
// another process take its own under ptrace.
func (w *Watcher) handlerCalled(tid int, info syscallInfo) bool {
	left := w.handlers[tid]
	if left == 0 {
		return false
	}
	w.handlers[tid] = left - 1
	switch {
	case info.returnsFromHandler():
		delete(w.handlers, tid)
	case left == 1:
		delete(w.handlers, tid)
		if p := w.owner[tid]; p != nil {
			p.unfinished++
		}
	}
	return info.namesTracer()
}

// catches reports whether a program has a handler for a signal that one of its threads gets. One that has had a
// handler counts as one that has: without it, it dies.
func (p *program) catches(tid, signal int) bool {
	if p.caught>>(signal-1)&1 == 0 {
		p.caught |= caughtBy(tid)
	}
	return p.caught>>(signal-1)&1 != 0
}

// caughtBy is the set of signals that a thread's process has handlers for, the first in bit 0; 0: it can't be read.
func caughtBy(tid int) uint64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	if err != nil {
		return 0 // it has been killed
	}
	for line := range strings.Lines(string(text)) {
		if mask, ok := strings.CutPrefix(line, "SigCgt:"); ok {
			caught, _ := strconv.ParseUint(strings.TrimSpace(mask), 16, 64) // the kernel writes a number there
			return caught
		}
	}
	return 0
}
