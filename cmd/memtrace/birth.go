package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/tracer/event"
)

// How a child is followed. The kernel's fork event tells of it, in the order
// of all events: the analyzer then gives it copies of its parent's blocks, and
// the session a target. The probes come by one of two ways:
//
//	held    ptrace keeps it from its first instruction until it has its probes
//	loose   it runs on, and what it allocates until it has them is not seen:
//	        its heap is then marked as from before the attach
//
// A child that shares its parent's memory (vfork, posix_spawn) is treated
// alike: probes are on files, so that those it gets before its exec see its new
// program from the first instruction, where that maps the same files.

// latest is how long a child that should be held may take to come to a stop at its birth:
// then it is taken for loose (made with CLONE_UNTRACED, or before the watch began).
const latest = time.Second

// holdPatience bounds how long a process stands still, whatever goes wrong.
const holdPatience = 2 * time.Second

var errTooSlow = fmt.Errorf("attaching to it took more than %v, so that it was let go first", holdPatience)

// within returns what do returns, or errTooSlow and lets it run on.
func within(patience time.Duration, do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		return errTooSlow
	}
}

// born attaches to a child that stands still at its birth. It is called
// outside of the session's goroutine, which may be busy.
func (s *session) born(pid int) {
	s.family.beginBirth(pid)
	err := within(holdPatience, func() error { return s.family.inherit(pid, true) })
	s.follower.answer(found{search: search{pid: pid, birth: true, still: true}, err: err})
	if err == nil && s.leaks && s.atExit != exitOff {
		s.visit(func() {
			s.settle() // the news of the fork make it a target
			if t := s.newborn(pid); t != nil && !t.shared {
				s.stopAtExit(t)
			}
		})
	}
}

// newborn is the target of a child that has just got its probes, of which bore may not have been
// told yet; its fork may have been read before it had them. It is nil where the fork is not known.
func (s *session) newborn(pid int) *target {
	t := s.targets[pid]
	if t != nil {
		t.objects = s.family.of(pid)
	}
	return t
}

// replaced attaches to a program that has just replaced another, or has mapped
// code since, and reports whether that is all. It is called outside of the
// session's goroutine, while the program stands still.
func (s *session) replaced(pid int) (done bool) {
	s.names.replaced(pid, !s.family.atExec(pid), now())
	err := within(holdPatience, func() (err error) {
		done, err = s.family.replace(pid, s.finder.Discover)
		return err
	})
	if err != nil {
		s.family.settle(pid)
		s.follower.answer(found{search: search{pid: pid, exec: true}, err: err})
		return true
	}
	return done
}

// moved gives up the probes of a process that stands still at an exec which another thread than
// its first one called: they were tied to that one, and have gone with it.
func (s *session) moved(pid int) {
	if err := s.family.release(pid); err != nil {
		s.follower.answer(found{search: search{pid: pid, exec: true}, err: err})
	}
}

// standsAtExec reports whether a process gets its probes while it stands still at an exec.
func (s *session) standsAtExec(pid int) bool {
	return s.holds(pid) && (s.leaks || !s.tracer.Config().NoFollow)
}

// forked makes a child a target. It is called with each fork, in order.
func (s *session) forked(e event.Event) {
	if s.tracer.Config().NoFollow {
		return
	}
	s.follower.settle(e)
	pid, parent := int(e.Child), s.targets[int(e.PID)]
	everywhere := s.tracer.Config().Everywhere
	if !everywhere && !s.family.wasBorn(pid) {
		s.unborn[pid] = time.Now()
	}
	t, err := holdTarget(s.fs, pid)
	if err != nil {
		if !isGone(err) { // else its events and its end are still to come
			s.warn("%v", err)
			s.missed++
		}
		return
	}
	t.born, t.since = time.Now(), e.Time
	t.child, t.shared = true, e.Flags&event.FlagSharedVM != 0
	t.objects, t.probed = s.family.of(pid), e.Time
	switch {
	case parent != nil:
		t.base, t.bare, t.left, t.goHeap = parent.base, parent.bare, slices.Clone(parent.left), parent.goHeap
	case !everywhere:
		t.base = &analyzer.Baseline{}
	}
	if s.unborn[pid] != (time.Time{}) && !s.guarded[pid] {
		t.base, t.probed = &analyzer.Baseline{}, 0
	}
	s.enlist(t)
	s.take(input.Described{ProcessInfo: t.describe()})
	go s.awaitExit(t)
}

// bore notes that a child has its probes, or why not.
func (s *session) bore(r found) {
	if r.still {
		s.family.endBirth(r.pid)
	}
	t := s.targets[r.pid]
	if t != nil && t.exited {
		t = nil // it had the PID before
	}
	_, waiting := s.unborn[r.pid]
	delete(s.unborn, r.pid)
	switch {
	case r.err == nil && t != nil:
		s.family.wasBorn(r.pid)
		s.probed(t, r.still)
	case r.err == nil: // its fork is still to come, or it has ended
	case errors.Is(r.err, errCrowded): // counted there
		s.incomplete(t, r.err)
	case errors.Is(r.err, errNoParent) && t != nil: // counted as it ends, or by missedChildren
		s.incomplete(t, r.err)
	case t == nil || isGone(r.err):
		if waiting {
			s.missed++
		}
	default:
		s.incomplete(t, r.err)
		s.warn("process %d is not traced: %v", r.pid, r.err)
	}
}

// probed takes in the probes of a child that is known.
func (s *session) probed(t *target, still bool) {
	t.objects = s.family.of(t.pid)
	if !t.replaced {
		t.untraced = nil
	}
	if !still && t.probed == 0 {
		t.probed = now()
		if base, err := analyzer.ReadBaseline(t.held.Process); err == nil {
			t.base = base
		}
	}
	s.take(input.Described{ProcessInfo: t.describe()})
	s.say("attached to the child %d", t.pid)
}

// incomplete notes that a child that was thought to have probes has none, and why.
func (s *session) incomplete(t *target, err error) {
	if t != nil {
		t.base, t.probed = &analyzer.Baseline{}, 0
		if !t.replaced {
			t.untraced = err
		}
		s.take(input.Described{ProcessInfo: t.describe()})
	}
}

// lookAfterChildren attaches to children that were to be held at their birth
// and were not, and lets go of those whose last event was lost.
func (s *session) lookAfterChildren() {
	for _, t := range s.targets {
		if t.child && !t.exited && !t.gone.IsZero() && time.Since(t.gone) > lastWords {
			s.ended(t)
		}
	}
	for pid, since := range s.unborn {
		t := s.targets[pid]
		switch {
		case t == nil || time.Since(since) < latest || !s.guarded[pid] || s.family.atBirth(pid):
		case s.family.wasBorn(pid): // the news of it is still to come
			delete(s.unborn, pid)
			s.probed(t, true)
		default:
			delete(s.guarded, pid)
			s.incomplete(t, errNotTraced)
			s.follower.bear(pid)
		}
	}
}

// childEnded lets go of a child after its last event.
func (s *session) childEnded(e event.Event) {
	pid := int(e.PID)
	t := s.targets[pid]
	switch {
	case t != nil && e.Time < t.since: // it is of one that had its PID before
	case t == nil:
		s.forget(pid)
	case t.child:
		s.ended(t)
	default:
		s.names.forget(pid)
	}
}

// lastWords is how long the last event of a child may take after its end.
const lastWords = 2 * time.Second

// gone notes that a target's process is gone. The events of a child may still
// speak of it.
func (s *session) gone(t *target) {
	if t.child {
		t.gone = time.Now()
		return
	}
	s.ended(t)
}

// forget removes the probes of a process that has ended.
func (s *session) forget(pid int) {
	t := s.targets[pid]
	_, waiting := s.unborn[pid]
	untraced := t != nil && t.child && t.untraced != nil && !s.leaks // else it is kept, and says so itself
	if untraced || waiting && !s.family.wasBorn(pid) {
		s.missed++
	}
	s.nameEnded(pid)
	s.family.forget(pid)
	if t == nil || t.child {
		s.names.forget(pid) // of the others execs may still be to come among the events
	}
	delete(s.unborn, pid)
	delete(s.guarded, pid)
	delete(s.loose, pid)
	delete(s.left, pid)
	delete(s.follower.noticed, pid)
	if err := s.tracer.Forget(pid); err != nil {
		s.warn("%v", err)
	}
}

// missedChildren says of which children nothing was seen, "" if there are none.
func (s *session) missedChildren() (texts []string) {
	missed := s.missed
	for _, t := range s.targets {
		if t.child && !t.exited && errors.Is(t.untraced, errNoParent) {
			missed++
		}
	}
	if missed > 0 {
		texts = append(texts, children(missed)+" could not be attached to, or ended before: the allocations were not seen")
	}
	if n := s.family.leftAlone(); n > 0 {
		texts = append(texts, children(n)+" came while the probes of too many others were being removed, and were left alone: the allocations were not seen")
	}
	return texts
}

func children(n int) string {
	if n == 1 {
		return "1 child process"
	}
	return fmt.Sprintf("%d child processes", n)
}
