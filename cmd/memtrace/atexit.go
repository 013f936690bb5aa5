//go:build linux && !viewer

package main

import (
	"fmt"
	"os/signal"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/reach"
	"github.com/memtrace/memtrace/tracer"
	"github.com/memtrace/memtrace/tracer/launch"
	"github.com/memtrace/memtrace/tracer/probe"
)

// When programs are checked as they end: values of --at-exit.
const (
	exitAfter  = "after"  // after exit handlers and destructors
	exitBefore = "before" // as exit is called
	exitOff    = "off"    // never: nothing is watched by ptrace
)

var exitTimes = []string{exitAfter, exitBefore, exitOff}

// A sessionCall is work for the session's goroutine while a process is stopped.
type sessionCall struct {
	do   func()
	done chan struct{}
}

// runInSession runs do in the session's goroutine and returns when it is done. Other goroutines call it.
func (s *session) runInSession(do func()) {
	v := sessionCall{do, make(chan struct{})}
	select {
	case s.calls <- v:
		<-v.done
	case <-s.over:
	}
}

// runCall runs one call. A session that is stopping runs none.
func (s *session) runCall(v sessionCall) {
	defer close(v.done)
	if !s.stopping {
		v.do()
	}
}

// hooks are what the session does when a process forks, executes a program, exits or is stopped at one of our probes.
func (s *session) hooks() *launch.Hooks {
	h := &launch.Hooks{Unknown: s.stoppedAtCode, AtExit: func(e launch.Ending) {
		s.names.Last(s.fs.Root(), e.PID, now())
		s.known.look(s.fs, s.attacher, e.PID)
		s.limiter.ending(e.PID)
		if s.leaks || s.looksAtEnd(e.PID) {
			s.runInSession(func() { s.lookAtEnd(e) })
		}
	}}
	h.Stays = func(pid int) bool { return !s.attacher.checksItself(pid) }
	h.Tracing, h.MayPtrace, h.BeforeDetach = s.tracer.StoppedAtPtrace, s.attacher.mayPtrace, s.prepareDetach
	if s.hold && !s.tracer.Config().NoFollow {
		h.NewChild = s.attachHeldChild
		h.Started = s.attachHeldExec
	}
	h.Moved = s.detachMoved
	if !s.leaks {
		return h
	}
	h.Started = func(pid int) (done bool) {
		s.runInSession(func() { done = s.executed(pid) })
		return done
	}
	h.GaveUp = func(pid int) { s.runInSession(func() { s.gaveUp(pid) }) }
	if s.atExit != exitOff {
		h.Execing = s.tracer.StoppedAtExec
		h.AtExec = func(e launch.Ending) { s.runInSession(func() { s.lookAtExec(e) }) }
	}
	if s.atExit == exitBefore {
		h.Exiting = s.tracer.StoppedAtExit
	}
	return h
}

// looksAtEnd reports whether a process's last figures are read as it exits, even without a check for leaks.
// They are for the command that we started, and for whoever's live blocks would not be known otherwise.
func (s *session) looksAtEnd(pid int) bool { return s.command == pid || s.allocs }

// guard watches the processes that were attached to. Their children are held at their first instruction, and they
// are looked at as they exit.
func (s *session) guard() {
	ends := s.leaks && s.atExit != exitOff
	if !ends && (!s.hold || s.tracer.Config().NoFollow) {
		return
	}
	var watched []int
	for _, pid := range s.pids {
		s.guarded[pid] = true
		if s.attacher.checksItself(pid) {
			s.notePtraceDetached(pid, errChecksItself)
			continue
		}
		watched = append(watched, pid)
		s.stopAtExit(s.targets[pid])
	}
	if len(watched) == 0 {
		return
	}
	// While memtrace is stopped, new children and threads that get a signal could not run.
	signal.Ignore(unix.SIGTSTP)
	watcher, err := launch.Attend(watched, *s.hooks())
	s.watcher = watcher
	if err != nil {
		clear(s.guarded)
		s.warn("%v: %s", err, unguarded(ends))
	}
}

// unguarded says what is not seen of a process that cannot be watched.
func unguarded(ends bool) string {
	text := "what its children allocate before memtrace has attached to them is not seen"
	if ends {
		text += ", and a process that ends before the trace does is not checked for leaks"
	}
	return text
}

// stopAtExit has a process stop as it calls exec and, where that is wanted, as it calls exit.
func (s *session) stopAtExit(t *target) {
	if !s.leaks || s.atExit == exitOff {
		return
	}
	// The C library of a program that it was before has such functions, too, but a static program calls its own.
	objects := t.objects
	if len(objects) > 1 {
		if still, _, err := stillMapped(t.held.Process, objects); err == nil && len(still) > 0 {
			objects = still
		}
	}
	if err := s.tracer.StopAtExec(t.pid, objects); err != nil {
		s.say("%v: it is not checked before it executes another program", err)
	}
	if s.atExit != exitBefore {
		return
	}
	if err := s.tracer.StopAtExit(t.pid, objects); err != nil {
		s.warn("%v: it is checked after its exit handlers, not before", err)
	}
}

// attachNewTarget begins to trace a process that is not known yet.
func (s *session) attachNewTarget(pid int, objects []probe.Object, all bool) error {
	t, err := holdTarget(s.fs, pid)
	if err != nil {
		probe.CloseAll(objects)
		return err
	}
	if err := s.attachTarget(t, objects, all); err != nil {
		return err
	}
	s.stopAtExit(t)
	s.say("attached to the child %d", pid)
	return nil
}

// executed attaches to a program after an exec, before its first instruction, and again whenever it has mapped code.
// It is done once the C library is mapped.
func (s *session) executed(pid int) (done bool) {
	s.guarded[pid] = true
	s.attacher.replaced(pid)
	s.syncEvents() // exec drops what was known of the program before
	objects, err := s.finder.Discover(pid)
	if err != nil {
		if err := s.attacher.detachInterpreter(pid, err); err != nil {
			s.warn("%v", err)
		}
		if hasLoader(pid) && notLoadedYet(err) {
			if t := s.targets[pid]; t != nil && !t.exited {
				t.untraced, t.unchecked = err, err // unless it maps one until its end
				if t.loading = s.finder.NeedsCLibrary(pid); t.loading {
					t.unchecked = nil
				}
			}
			return false
		}
		if s.tracesWithoutAllocator(err) {
			s.execedWithoutAllocator(pid, err)
			return true
		}
		if !isGone(err) {
			s.warn("process %d is not traced any further: %v", pid, err)
			s.noteUntraced(pid, err)
		}
		return true
	}
	// What it was attached to may be of the program before, as that one's C library.
	last := slices.ContainsFunc(objects, isLast)
	t := s.targets[pid]
	if t == nil || t.exited || !t.held.Alive() { // it is one that had its PID before
		if err := s.attachNewTarget(pid, objects, true); err != nil {
			s.warn("process %d is not traced: %v", pid, err)
			if s.targets[pid] == t {
				s.missed++ // it could not even be held
			}
			return true
		}
		return last
	}
	t.base, t.space, t.unchecked = nil, nil, errEndedFirst
	t.programs++
	if err := s.attachTarget(t, objects, true); err != nil {
		s.warn("%v", err)
		return true
	}
	if last {
		s.stopAtExit(t)
	}
	return last
}

// gaveUp notes that a program is no longer watched for the code that it maps: its loader may run it from now on.
func (s *session) gaveUp(pid int) {
	if t := s.targets[pid]; t != nil && t.loading {
		t.loading, t.unchecked = false, t.untraced
	}
}

// noteUntraced notes that nothing is seen of what a process allocates: a check
// of it must not pass for one that found no leaks.
func (s *session) noteUntraced(pid int, err error) {
	if t := s.targets[pid]; t != nil && !t.exited {
		t.untraced = err
		s.gaveUp(pid)
		return
	}
	s.missed++
}

// lookAtEnd reads the last figures of a program that is stopped at its exit.
func (s *session) lookAtEnd(e launch.Ending) {
	s.syncEvents() // its fork may be among the waiting events
	s.followPause()
	t := s.ending(e.PID)
	if t == nil {
		return
	}
	if s.leaks && s.atExit != exitOff {
		t.unchecked = s.checkEnding(t, e)
	}
	if !t.check || !t.freesUnseen { // else the check has done so
		s.repair(t, still(t, e))
	}
	s.correlateTarget(t) // last, so that it tells where the leaked blocks are
	if t.check {
		s.take(input.Paused{PID: uint32(t.pid), PausedNS: uint64(time.Since(e.Since))})
	}
}

// lookAtExec checks a program that is about to call exec, if it has blocks of its own.
func (s *session) lookAtExec(e launch.Ending) {
	s.syncEvents()
	s.followPause()
	t := s.targets[e.PID]
	if t == nil || t.exited || t.untraced != nil || !t.held.Alive() || s.analyzer.OwnBlocks(uint32(e.PID)) == 0 {
		return
	}
	check, err := s.checkStill(t, still(t, e))
	if err != nil {
		s.endedGaps.add(&s.endedGaps.unchecked, e.PID, fmt.Errorf("before it executed another program: %w", err))
		return
	}
	if err := s.conclude(check, analyzer.CheckBeforeExec, time.Since(e.Since)); err != nil {
		s.endedGaps.add(&s.endedGaps.unchecked, e.PID, err)
	}
}

// ending returns the target of a process that is stopped at its exit. It is nil if the fork was not read in time;
// that is noted here, as nothing later would say that the process was not checked.
func (s *session) ending(pid int) *target {
	if t := s.targets[pid]; t != nil && !t.exited && t.held.Alive() {
		return t
	}
	if s.leaks && s.atExit != exitOff {
		s.endedGaps.add(&s.endedGaps.unchecked, pid, errNotTraced)
	}
	return nil
}

// still are the threads of a program that is stopped at its exit.
func still(t *target, e launch.Ending) []reach.Thread {
	threads := make([]reach.Thread, 0, len(e.Threads))
	for _, thread := range e.Threads {
		still := reach.Thread{TID: thread.TID, SP: thread.SP, Words: thread.Words, Exits: thread.Exits}
		if thread.Exits {
			trimExitFrame(&still, t, e.Before)
		}
		if thread.Execs {
			trimExecFrame(&still, t)
		}
		threads = append(threads, still)
	}
	return threads
}

// trimExitFrame removes from a thread that has called exit what is dead: exit's own frames, and the registers that a
// call does not save.
func trimExitFrame(thread *reach.Thread, t *target, before bool) {
	if before { // it stands at exit's first instruction
		if saved, ok := tracer.SavedAcrossCalls(thread.Words); ok {
			thread.Keep(saved)
		}
		return
	}
	if call, ok := tracer.FindExitCall(thread.TID, t.objects, thread.Words); ok && call.SP > thread.SP {
		thread.SP = call.SP
		thread.Keep(call.Saved)
	}
}

// trimExecFrame is trimExitFrame of a thread that stands at execve's first instruction.
func trimExecFrame(thread *reach.Thread, t *target) {
	used, ok := tracer.UsedByExec(thread.Words)
	if !ok {
		return
	}
	if call, ok := tracer.FindExecCall(thread.TID, t.objects, thread.Words); ok && call.SP > thread.SP {
		thread.SP = call.SP
		used = append(used, call.Saved...)
	}
	thread.Exits = true // what lies below its stack pointer is dead, as at any call
	thread.Keep(used)
}

// checkEnding checks a program that is stopped at its exit.
func (s *session) checkEnding(t *target, e launch.Ending) error {
	if t.loading {
		return nil
	}
	if t.untraced != nil {
		return t.untraced
	}
	when := analyzer.CheckAfterExit
	if e.Before {
		when = analyzer.CheckBeforeExit
	}
	for _, thread := range e.Threads {
		if s.atExit == exitBefore && !e.Before && s.tracer.StoppedAtExit(thread.TID) {
			s.warn("process %d blocks SIGURG, by which memtrace stops it as it calls exit: it was checked after its exit handlers", e.PID)
		}
	}
	check, err := s.checkStill(t, still(t, e))
	if err == nil {
		err = s.conclude(check, when, time.Since(e.Since))
		t.check = err == nil
	}
	return err
}

// checkStill scans a process whose threads are all stopped.
func (s *session) checkStill(t *target, threads []reach.Thread) (*analyzer.Check, error) {
	check, err := s.analyzer.NewCheck(uint32(t.pid))
	if err != nil {
		return nil, err
	}
	return check, s.scan(t, check, threads)
}

// conclude turns what a process's scans found into verdicts. paused is how long the process was stopped for them.
func (s *session) conclude(check *analyzer.Check, when analyzer.CheckTime, paused time.Duration) error {
	check.When, check.Paused = when, paused
	v, err := s.analyzer.Verdicts(check)
	if err == nil {
		s.take(v)
	}
	return err
}
