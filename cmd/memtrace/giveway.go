package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"regexp"

	"github.com/memtrace/memtrace/tracer/probe"
)

// A thread has one tracer at a time. Programs that trace themselves or others are given way to:
//
//   - one that has LeakSanitizer is not kept under ptrace beyond its start, as that takes
//     itself as it ends, by system calls of its own,
//   - one that calls ptrace is stopped as it does, and whom it is about to take is let go.
//
// What is let go is loose from then on: its children are not held, and it is not looked at
// as it ends. What another takes has its probes taken off as well: a debugger's breakpoint in
// the place of a probe is never hit, as the kernel takes it for the probe's.

// Why a process is not looked at as it ends.
var (
	errChecksItself = errors.New("it has LeakSanitizer, which needs ptrace itself as the program ends " +
		"(with detect_leaks=0 in ASAN_OPTIONS it is checked by memtrace instead)")
	errTracedByOther = errors.New("another program takes it under ptrace, as debuggers do, and memtrace has left it to that")
)

// noteTracing notes what a program may want ptrace for. more says that the objects are not all that it maps.
func (f *family) noteTracing(pid int, objects []probe.Object, more bool) {
	if f.tracer.Config().Everywhere || len(objects) == 0 {
		return
	}
	f.mu.Lock()
	wants := objects[0].Tracing // the same for all
	if more {
		wants.Ptraces = wants.Ptraces || f.tracing[pid].Ptraces
		wants.Checks = wants.Checks || f.tracing[pid].Checks
	}
	f.tracing[pid] = wants
	f.mu.Unlock()
	f.stopAtPtrace(pid)
}

// inheritTracing notes the same of a child.
func (f *family) inheritTracing(child, parent int) {
	f.mu.Lock()
	f.tracing[child] = f.tracing[parent]
	f.mu.Unlock()
	f.stopAtPtrace(child)
}

// stopAtPtrace has a process that may call ptrace stop there.
func (f *family) stopAtPtrace(pid int) {
	f.mu.Lock()
	wants, objects, at := f.tracing[pid], f.probed[pid], f.stops[pid]
	f.mu.Unlock()
	if !wants.Ptraces {
		return
	}
	for i := range objects {
		o := &objects[i]
		id := fileID{o.Major, o.Minor, o.Inode}
		if !isLast(*o) || len(o.Text) == 0 || id == at {
			continue
		}
		if err := f.tracer.StopAtPtrace(pid, objects[i:i+1]); err != nil {
			if !isGone(err) {
				f.note(pid, []error{fmt.Errorf("%w: what it takes under ptrace is not let go for that", err)})
			}
			return
		}
		f.mu.Lock()
		f.stops[pid] = id
		f.mu.Unlock()
		return
	}
}

// checksItself reports whether a program has LeakSanitizer, and has not been told to leave its check out.
func (f *family) checksItself(pid int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tracing[pid].Checks && !leavesCheckOut(pid)
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

// letGo sees to a program that stands still, or whose tracer does, and is about to be let go.
func (s *session) letGo(pid int) {
	if s.family.checksItself(pid) {
		s.visit(func() { s.loosen(pid, errChecksItself) })
		return
	}
	err := s.family.release(pid)
	s.visit(func() {
		if err != nil {
			s.warn("%v", err)
		}
		s.loosen(pid, errTracedByOther)
		s.leave(pid)
	})
}

// leave notes that a process and what it executes are left to another tracer.
func (s *session) leave(pid int) {
	s.left[pid] = true
	if t := s.targets[pid]; t != nil {
		t.deaf, t.replaced, t.untraced = true, true, errTracedByOther // nothing brings its probes back
	}
	s.warn("process %d is not traced any further: %v", pid, errTracedByOther)
}

// loosen notes that a process is not under ptrace any more, and why.
func (s *session) loosen(pid int, reason error) {
	s.loose[pid] = true
	if t := s.targets[pid]; t != nil && t.unchecked != nil {
		t.unchecked = reason
	}
	if s.leaks && s.atExit != exitOff {
		s.warn("process %d is not checked for leaks as it ends: %v", pid, reason)
		return
	}
	s.say("process %d is not kept under ptrace: %v", pid, reason)
}

// holds reports whether the children of a process are held at their births, and its programs at their execs.
func (s *session) holds(pid int) bool { return s.guarded[pid] && !s.loose[pid] }

// wasHeldAtExec reports whether a process stood still at its last exec until it had its probes.
func (s *session) wasHeldAtExec(t *target, news []probe.Object) bool {
	if !s.guarded[t.pid] || s.loose[t.pid] && s.family.execsOf(t.pid) < t.execs {
		return false
	}
	return !s.family.wasLate(t.pid, t.execs, news)
}

// execsOf is at how many of its execs a process has stood still.
func (f *family) execsOf(pid int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.execs[pid]
}
