//go:build linux && !viewer

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"time"

	"github.com/memtrace/memtrace/tracer/probe"
)

// A thread has one tracer at a time. memtrace yields to programs that trace themselves or others:
//
//   - A program with LeakSanitizer is detached from ptrace after its start, as the sanitizer traces
//     the program itself at exit, by system calls of its own.
//   - A program that calls ptrace is stopped at the call, and its target is detached first.
//
// Children of a process that was detached from ptrace are not held, and the process is not looked at
// as it exits. A process that another tracer takes loses its probes as well: a debugger's breakpoint in
// the place of a probe is never hit, as the kernel takes it for the probe's.

// Why a process is not looked at as it ends.
var (
	errChecksItself = errors.New("it has LeakSanitizer, which needs ptrace itself as the program ends " +
		"(with detect_leaks=0 in ASAN_OPTIONS it is checked by memtrace instead)")
	errTracedByOther = errors.New("another program takes it under ptrace, as debuggers do, and memtrace has left it to that")
)

// noteTracing notes what a program may want ptrace for. more says that the objects are not all that it maps.
func (a *attacher) noteTracing(pid int, objects []probe.Object, more bool) {
	if a.tracer.Config().Everywhere || len(objects) == 0 {
		return
	}
	a.mu.Lock()
	wants := objects[0].Tracing // the same for all
	if more {
		wants.Ptraces = wants.Ptraces || a.tracing[pid].Ptraces
		wants.Checks = wants.Checks || a.tracing[pid].Checks
	}
	a.tracing[pid] = wants
	a.mu.Unlock()
	a.stopAtPtrace(pid)
}

// inheritTracing notes the same of a child.
func (a *attacher) inheritTracing(child, parent int) {
	a.mu.Lock()
	a.tracing[child] = a.tracing[parent]
	a.mu.Unlock()
	a.stopAtPtrace(child)
}

// A program that is let go before it was attached to does not stop as it calls ptrace. launch.Watcher watches its
// system calls until it does; see launch.Hooks.MayPtrace.

// attachWithin is within for an attach to a process that stands still.
func (a *attacher) attachWithin(pid int, patience time.Duration, do func() error) error {
	a.beginAttach(pid)
	return within(patience, func() error {
		defer a.endAttach(pid)
		return do()
	})
}

func (a *attacher) beginAttach(pid int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.attaches[pid]++
}

func (a *attacher) endAttach(pid int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.attaches[pid]--; a.attaches[pid] <= 0 {
		delete(a.attaches, pid)
	}
}

// noteInherited notes whether a child may call ptrace that was left alone for an error.
func (a *attacher) noteInherited(child, parent int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil && (a.tracing[parent].Ptraces || a.mayCall[parent]) {
		a.mayCall[child] = true
	}
}

// replaced notes that another program runs in a child that was left alone.
func (a *attacher) replaced(pid int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.mayCall, pid)
}

// mayPtrace reports whether a program may call ptrace without being stopped there.
func (a *attacher) mayPtrace(pid int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.attaches[pid] > 0 || a.mayCall[pid]
}

const (
	// lateTimeout bounds how long a program that was let go at its exec may take to map its libraries.
	lateTimeout = 10 * time.Second
	latePoll    = 100 * time.Millisecond
)

// attachLate attaches to what a program has mapped by now that was let go at its exec before that was done.
func (s *session) attachLate(pid int) {
	s.attacher.beginAttach(pid)
	go func() {
		defer s.attacher.endAttach(pid)
		held, err := s.fs.Hold(pid)
		if err != nil {
			return // it has been killed
		}
		defer held.Close()
		for deadline := time.Now().Add(lateTimeout); held.Alive() && time.Now().Before(deadline); {
			if s.attacher.complete(pid, s.finder.Discover) {
				return
			}
			select {
			case <-s.over:
				return
			case <-time.After(latePoll):
			}
		}
	}()
}

// complete attaches to what a program that runs has mapped. It reports whether the C library is among that.
func (a *attacher) complete(pid int, discover func(pid int) ([]probe.Object, error)) bool {
	objects, err := discover(pid)
	if err != nil {
		return false
	}
	if _, err := a.extend(pid, objects); err != nil {
		return false
	}
	a.noteTracing(pid, objects, false)
	return slices.ContainsFunc(objects, isLast)
}

// stopAtPtrace has a process that may call ptrace stop there.
func (a *attacher) stopAtPtrace(pid int) {
	a.mu.Lock()
	wants, objects, at := a.tracing[pid], a.probed[pid], a.stops[pid]
	a.mu.Unlock()
	if !wants.Ptraces {
		return
	}
	for i := range objects {
		o := &objects[i]
		id := fileID{o.Major, o.Minor, o.Inode}
		if !isLast(*o) || len(o.Text) == 0 || id == at {
			continue
		}
		if err := a.tracer.StopAtPtrace(pid, objects[i:i+1]); err != nil {
			if !isGone(err) {
				a.note(pid, []error{fmt.Errorf("%w: what it takes under ptrace is not let go for that", err)})
			}
			return
		}
		a.mu.Lock()
		a.stops[pid] = id
		a.mu.Unlock()
		return
	}
}

// checksItself reports whether a program has LeakSanitizer and its check is not switched off.
func (a *attacher) checksItself(pid int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.tracing[pid].Checks && !leavesCheckOut(pid)
}

var (
	sanitizerOptions = regexp.MustCompile(`(?:^|\x00)(?:ASAN|LSAN|HWASAN)_OPTIONS=([^\x00]*)`)
	detectsLeaks     = regexp.MustCompile(`(?:^|[\s:,])detect_leaks=['"]?(1|true|yes)`)
	detectsNoLeaks   = regexp.MustCompile(`(?:^|[\s:,])detect_leaks=['"]?(0|false|no)`)
)

// leavesCheckOut reports whether a process was started with options for LeakSanitizer that say so.
func leavesCheckOut(pid int) bool {
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return false
	}
	var all [][]byte
	for _, match := range sanitizerOptions.FindAllSubmatch(env, -1) {
		all = append(all, match[1])
	}
	options := bytes.Join(all, []byte(":"))
	return detectsNoLeaks.Match(options) && !detectsLeaks.Match(options)
}

// leave is release for a process that another tracer takes: nothing is attached to it any more.
func (a *attacher) leave(pid int) error {
	a.mu.Lock()
	a.left[pid] = true
	a.mu.Unlock()
	return a.release(pid)
}

// prepareDetach prepares a program that is about to be detached from ptrace. The program or its new tracer is stopped.
func (s *session) prepareDetach(pid int) {
	if s.attacher.checksItself(pid) {
		s.runInSession(func() { s.notePtraceDetached(pid, errChecksItself) })
		return
	}
	err := s.attacher.leave(pid)
	s.runInSession(func() {
		if err != nil {
			s.warn("%v", err)
		}
		s.notePtraceDetached(pid, errTracedByOther)
		s.leaveToOtherTracer(pid)
	})
}

// leaveToOtherTracer notes that a process and what it executes are left to another tracer.
func (s *session) leaveToOtherTracer(pid int) {
	s.gaveUp(pid)
	s.ptracedByOther[pid] = true
	if t := s.targets[pid]; t != nil {
		t.probesLost, t.replaced, t.untraced = true, true, errTracedByOther // nothing brings its probes back
	}
	s.warn("process %d is not traced any further: %v", pid, errTracedByOther)
}

// notePtraceDetached notes that a process is not under ptrace any more, and why.
func (s *session) notePtraceDetached(pid int, reason error) {
	s.ptraceDetached[pid] = true
	s.gaveUp(pid)
	if t := s.targets[pid]; t != nil && t.unchecked != nil {
		t.unchecked = reason
	}
	if s.leaks && s.atExit != exitOff {
		s.warn("process %d is not checked for leaks as it ends: %v", pid, reason)
		return
	}
	s.say("process %d is not kept under ptrace: %v", pid, reason)
}

// holds reports whether a process's children are held at their first instruction, and its programs at their execs.
func (s *session) holds(pid int) bool { return s.guarded[pid] && !s.ptraceDetached[pid] }

// wasHeldAtExec reports whether a process was stopped at its last exec until it had its probes.
func (s *session) wasHeldAtExec(t *target, news []probe.Object) bool {
	if !s.guarded[t.pid] || s.ptraceDetached[t.pid] && s.attacher.execsOf(t.pid) < t.execs {
		return false
	}
	return !s.attacher.wasLate(t.pid, t.execs, news)
}

// execsOf is at how many of its execs a process has been stopped.
func (a *attacher) execsOf(pid int) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.execs[pid]
}
