//go:build linux && !viewer

package main

import (
	"errors"
	"os"

	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/tracer/probe"
)

// tracesWithoutAllocator reports whether a process is traced although no allocator
// was found, for this reason: for its page faults and for where its memory is. It is
// not if allocations were asked for, as by a check for leaks.
func (s *session) tracesWithoutAllocator(reason error) bool {
	if len(s.functions.Functions) == 0 && s.functions.Family == "" && errors.Is(reason, probe.ErrAllocatesNothing) {
		return true // nothing is missed, whatever was asked for
	}
	needed := s.gate.rules.NeedTrace()
	if errors.Is(reason, probe.ErrGoProgram) { // its own samples tell some
		needed = s.gate.rules.NeedAllocations()
	}
	if s.leaks || needed || len(s.functions.Functions) > 0 || s.functions.Family != "" {
		return false
	}
	if errors.Is(reason, probe.ErrFileReplaced) || errors.Is(reason, os.ErrPermission) {
		return false // it may have one
	}
	return errors.Is(reason, probe.ErrGoProgram) || errors.Is(reason, probe.ErrStripped) || errors.Is(reason, probe.ErrNoAllocator) ||
		errors.Is(reason, probe.ErrInterpreter)
}

// staysWithoutAllocator reports whether a program in which no allocator was found, for
// this reason, cannot load one later. A loader that was called as a program can.
func staysWithoutAllocator(pid int, reason error) bool {
	return (errors.Is(reason, probe.ErrGoProgram) || errors.Is(reason, probe.ErrStripped)) && !hasLoader(pid) ||
		errors.Is(reason, probe.ErrAllocatesNothing) ||
		errors.Is(reason, probe.ErrInterpreter)
}

// beginWithoutAllocator begins to trace a running process without an allocator.
func (s *session) beginWithoutAllocator(t *target, reason error) error {
	t.allocatesNothing = errors.Is(reason, probe.ErrAllocatesNothing)
	if err := s.attachTarget(t, nil, false); err != nil {
		return err
	}
	s.warnNoAllocator(t, reason)
	return nil
}

// startWithoutAllocator is beginWithoutAllocator for a program that has not run yet.
func (s *session) startWithoutAllocator(pid int, reason error) error {
	t, err := holdTarget(s.fs, pid)
	if err != nil {
		return err
	}
	t.allocatesNothing = errors.Is(reason, probe.ErrAllocatesNothing)
	if err := s.attachTarget(t, nil, true); err != nil {
		return err
	}
	s.guarded[pid], s.command = s.hold, pid
	s.warnNoAllocator(t, reason)
	return nil
}

// execedWithoutAllocator goes on with a process that has executed a program without
// an allocator. Nothing of that program is missed: page faults are counted by
// process, whatever it runs.
func (s *session) execedWithoutAllocator(pid int, reason error) {
	if t := s.execedUnprobed(pid, reason); t != nil {
		s.warnNoAllocator(t, reason) // even if it has ended meanwhile
	}
}

// execedUnprobed goes on with a process whose new program gets no probes: no allocator was found
// in it, for this reason, or none is looked for. It returns nil if it has ended.
func (s *session) execedUnprobed(pid int, reason error) *target {
	t := s.targets[pid]
	if t == nil || t.exited {
		var err error
		if t, err = holdRunning(s.fs, pid); err != nil {
			return nil // it ended
		}
		t.child = true
	}
	t.base, t.space, t.noAllocator = nil, nil, true // of the program before; the names that it gave stay
	t.allocatesNothing, t.unchecked = errors.Is(reason, probe.ErrAllocatesNothing), errEndedFirst
	t.programs++
	s.take(input.Described{ProcessInfo: s.describe(t)})
	if err := s.attachTarget(t, nil, true); err != nil && !isGone(err) {
		s.warn("%v", err)
		return nil
	}
	return t
}

// warnNoAllocator warns once for each program of what is not seen, and takes the
// reading that later ones are compared with.
func (s *session) warnNoAllocator(t *target, reason error) {
	exe, err := t.held.Exe()
	if err != nil || !s.warnedNoAllocator[exe] {
		switch {
		case errors.Is(reason, probe.ErrAllocatesNothing):
			s.say("process %d: %v", t.pid, reason)
		case errors.Is(reason, probe.ErrGoProgram):
			s.warn("process %d: a Go program that uses no C allocator: its allocations are not traced. Its page faults and memory are shown, and what its "+
				"runtime samples of its heap, where it does; --probes none shows who touches memory first (docs/languages.md)", t.pid)
		default:
			s.warn("process %d: its allocations are not seen, only its page faults, its memory and which of its mappings grow: %v", t.pid, reason)
		}
	}
	if err == nil && len(s.warnedNoAllocator) < maxWarnings {
		s.warnedNoAllocator[exe] = true
	}
	s.correlateTarget(t)
}
