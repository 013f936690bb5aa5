package main

import (
	"errors"
	"os"

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
	return errors.Is(reason, probe.ErrGoProgram) || errors.Is(reason, probe.ErrStripped) || errors.Is(reason, probe.ErrNoAllocator)
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

// sayBare warns of what is not seen, and takes the reading that later ones are
// compared with.
func (s *session) sayBare(t *target, reason error) {
	s.warn("process %d: its allocations are not seen, only its page faults, its memory and which of its mappings grow: %v", t.pid, reason)
	s.correlateTarget(t)
}
