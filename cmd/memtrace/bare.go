package main

import (
	"errors"
	"os"

	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/tracer/probe"
)

// traceBare reports whether a process of which no allocator was found, for
// this reason, is to be traced all the same: for its page faults and for where
// its memory is. Where allocations were asked for, as by a check for leaks, it is
// not, as nothing could be said of them.
func (s *session) traceBare(reason error) bool {
	if s.leaks || s.gate.rules.NeedTrace() || len(s.functions.Functions) > 0 || s.functions.Family != "" {
		return false
	}
	if errors.Is(reason, probe.ErrFileReplaced) || errors.Is(reason, os.ErrPermission) {
		return false // it may have one
	}
	return errors.Is(reason, probe.ErrGoProgram) || errors.Is(reason, probe.ErrStripped) || errors.Is(reason, probe.ErrNoAllocator) ||
		errors.Is(reason, probe.ErrInterpreter)
}

// staysBare reports whether a program of which no allocator was found, for this
// reason, can have none later either: nothing will load one. A loader that was
// called as a program may.
func staysBare(pid int, reason error) bool {
	return (errors.Is(reason, probe.ErrGoProgram) || errors.Is(reason, probe.ErrStripped)) && !hasLoader(pid) ||
		errors.Is(reason, probe.ErrInterpreter)
}

// beginBare begins to trace a process without an allocator that runs already.
func (s *session) beginBare(t *target, reason error) error {
	if err := s.adopt(t, nil, false); err != nil {
		return err
	}
	s.sayBare(t, reason)
	return nil
}

// startBare is beginBare for a program that has not run yet.
func (s *session) startBare(pid int, reason error) error {
	t, err := holdTarget(s.fs, pid)
	if err != nil {
		return err
	}
	if err := s.adopt(t, nil, true); err != nil {
		return err
	}
	s.guarded[pid], s.command = s.hold, pid
	s.sayBare(t, reason)
	return nil
}

// execedBare traces a process on that has replaced its program by one without
// an allocator. Its first instruction is not missed: page faults are counted by
// process, whatever it runs.
func (s *session) execedBare(pid int, reason error) {
	t := s.targets[pid]
	if t == nil || t.exited {
		var err error
		if t, err = holdTarget(s.fs, pid); err != nil {
			return // it ended
		}
		t.child = true
	}
	t.base, t.space, t.bare = nil, nil, true // of the program before; the names that it gave stay
	s.take(input.Described{ProcessInfo: t.describe()})
	if err := s.adopt(t, nil, true); err != nil && !isGone(err) {
		s.warn("%v", err)
		return
	}
	s.sayBare(t, reason) // even if it has ended meanwhile
}

// sayBare warns of what is not seen, of each program once, and takes the
// reading that later ones are compared with.
func (s *session) sayBare(t *target, reason error) {
	exe, err := t.held.Exe()
	if err != nil || !s.bare[exe] {
		s.warn("process %d: its allocations are not seen, only its page faults, its memory and which of its mappings grow: %v", t.pid, reason)
	}
	if err == nil && len(s.bare) < maxWarnings {
		s.bare[exe] = true
	}
	s.correlateTarget(t)
}
