package main

import (
	"time"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/reach"
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

// A visit is something that the session does while a process stands still.
type visit struct {
	do   func()
	done chan struct{}
}

// visit has the session do something, and returns once it has. It is called
// from other goroutines than the session's.
func (s *session) visit(do func()) {
	v := visit{do, make(chan struct{})}
	select {
	case s.visits <- v:
		<-v.done
	case <-s.over:
	}
}

// receive does what a visit is for.
func (s *session) receive(v visit) {
	defer close(v.done)
	if !s.stopping {
		v.do()
	}
}

// hooks are what the session does at turns of its processes' lives. Children
// are held at their births only where each is to have a verdict.
func (s *session) hooks() *launch.Hooks {
	h := &launch.Hooks{AtExit: func(e launch.Ending) { s.visit(func() { s.lookAtEnd(e) }) }}
	if !s.leaks {
		return h
	}
	h.Started = func(pid int) (done bool) {
		s.visit(func() { done = s.executed(pid) })
		return done
	}
	if !s.tracer.Config().NoFollow {
		h.Born = func(pid int) { s.visit(func() { s.born(pid) }) }
	}
	if s.atExit == exitBefore {
		h.Exiting = s.tracer.StoppedAtExit
	}
	return h
}

// guard watches the processes that were attached to for their ends.
func (s *session) guard() {
	if !s.leaks || s.atExit == exitOff {
		return
	}
	for _, pid := range s.pids {
		s.guarded[pid] = true
		s.stopAtExit(s.targets[pid])
	}
	watcher, err := launch.Attend(s.pids, *s.hooks())
	if err != nil {
		s.warn("%v: a process that ends before the trace does is not checked for leaks", err)
	}
	s.watcher = watcher
}

// stopAtExit has a process stand still as it calls exit, where that is wanted.
func (s *session) stopAtExit(t *target) {
	if s.atExit != exitBefore || !s.leaks {
		return
	}
	if err := s.tracer.StopAtExit(t.pid, t.objects); err != nil {
		s.warn("%v: it is checked after its exit handlers, not before", err)
	}
}

// born attaches to a new child, which has not run yet.
func (s *session) born(pid int) {
	s.guarded[pid] = true
	objects, err := probe.Discover(s.fs.Root(), pid)
	if err == nil {
		err = s.adoptNew(pid, objects, false)
	}
	if err != nil && !isGone(err) {
		s.warn("process %d is not traced: %v", pid, err)
	}
}

// adoptNew begins to trace a process that is not known yet.
func (s *session) adoptNew(pid int, objects []probe.Object, all bool) error {
	t, err := holdTarget(s.fs, pid)
	if err != nil {
		probe.CloseAll(objects)
		return err
	}
	if err := s.adopt(t, objects, all); err != nil {
		return err
	}
	s.stopAtExit(t)
	s.say("attached to the child %d", pid)
	return nil
}

// executed attaches to a program that has replaced another and not run yet, or
// has just mapped code. It is content once the C library is mapped.
func (s *session) executed(pid int) (done bool) {
	s.guarded[pid] = true
	s.settle() // exec drops what was known of the program before
	objects, err := probe.Discover(s.fs.Root(), pid)
	if err != nil {
		if hasLoader(pid) && notLoadedYet(err) {
			return false
		}
		if !isGone(err) {
			s.warn("process %d is not traced any further: %v", pid, err)
		}
		return true
	}
	t := s.targets[pid]
	if t == nil || t.exited {
		if err := s.adoptNew(pid, objects, true); err != nil {
			s.warn("process %d is not traced: %v", pid, err)
			return true
		}
		return mapsLast(s.targets[pid])
	}
	t.base, t.space, t.unchecked = nil, nil, errEndedFirst
	if err := s.adopt(t, t.news(objects), true); err != nil {
		s.warn("%v", err)
		return true
	}
	if done = mapsLast(t); done {
		s.stopAtExit(t)
	}
	return done
}

// lookAtEnd takes the last figures of a program that stands still at its end.
func (s *session) lookAtEnd(e launch.Ending) {
	t := s.targets[e.PID]
	if t == nil || t.exited {
		return
	}
	s.settle()
	if s.leaks && s.atExit != exitOff {
		t.unchecked = s.checkEnding(t, e)
	}
	s.correlateTarget(t) // last, so that it tells where the leaked blocks are
	if t.check != nil {
		t.check.SetPause(time.Since(e.Since))
	}
}

// checkEnding checks a program that stands still at its end.
func (s *session) checkEnding(t *target, e launch.Ending) error {
	when := analyzer.CheckAfterExit
	if e.Before {
		when = analyzer.CheckBeforeExit
	}
	threads := make([]reach.Thread, 0, len(e.Threads))
	for _, thread := range e.Threads {
		threads = append(threads, reach.Thread(thread))
		if s.atExit == exitBefore && !e.Before && s.tracer.StoppedAtExit(thread.TID) {
			s.warn("process %d blocks SIGURG, by which memtrace stops it as it calls exit: it was checked after its exit handlers", e.PID)
		}
	}
	check, err := s.checkStill(t, threads)
	if err == nil {
		s.conclude(check, when, time.Since(e.Since))
		t.check = check
	}
	return err
}

// checkStill scans a process all of whose threads stand still.
func (s *session) checkStill(t *target, threads []reach.Thread) (*analyzer.Check, error) {
	check, err := s.analyzer.NewCheck(uint32(t.pid))
	if err != nil {
		return nil, err
	}
	return check, s.scan(t, check, threads)
}

// conclude turns what a process's scans found into verdicts. paused is how
// long it stood still for that.
func (s *session) conclude(check *analyzer.Check, when analyzer.CheckTime, paused time.Duration) {
	check.When, check.Paused = when, paused
	s.analyzer.Conclude(check)
}

// settleTime bounds how long the events of the past are waited for.
const (
	settleTime = 2 * time.Second
	settlePoll = time.Millisecond
)

// settle consumes all events until now. It reports whether it could.
func (s *session) settle() bool {
	limit, deadline := now(), time.Now().Add(settleTime)
	for time.Now().Before(deadline) {
		all := s.tracer.Through() > limit
		for {
			select {
			case b, ok := <-s.tracer.Batches():
				if !ok {
					return s.stopping
				}
				s.consume(b)
				continue
			default:
			}
			break
		}
		if all {
			return true
		}
		s.tracer.Hurry()
		time.Sleep(settlePoll)
	}
	return false
}
