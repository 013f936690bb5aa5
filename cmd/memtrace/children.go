//go:build linux && !viewer

package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/tracer/event"
	"github.com/memtrace/memtrace/tracer/launch"
)

// How a child is followed. The kernel reports it by a fork event, in the order
// of all events. The analyzer then gives it copies of its parent's blocks, and
// the session adds a target. It gets its probes in one of two ways:
//
//	held    ptrace stops it at its first instruction until it has its probes
//	queued  it runs on, and what it allocates before it has them is not seen:
//	        its heap is then marked as from before the attach
//
// A child that shares its parent's memory (vfork, posix_spawn) is treated the
// same way. Probes are on files: those it gets before its exec see its new
// program from the first instruction, if that maps the same files.

// childStopTimeout is how long a child that should be held may take to stop at its first instruction.
// After that it is treated as one that runs, unless it stands there and the watcher has no processor to see it:
// it was made with CLONE_UNTRACED, or before the watch began.
const childStopTimeout = time.Second

// holdTimeout bounds how long a process is stopped, whatever goes wrong.
const holdTimeout = 2 * time.Second

var errTooSlow = fmt.Errorf("attaching to it took more than %v, so that it was let go first", holdTimeout)

// within returns what do returns, or errTooSlow after a timeout. Then do runs on.
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

// attachHeldChild attaches to a child that is stopped at its first instruction. It is called
// outside of the session's goroutine, which may be busy.
func (s *session) attachHeldChild(pid int) {
	s.attacher.beginChildHold(pid)
	err := s.attacher.attachWithin(pid, holdTimeout, func() error { return s.attacher.inherit(pid, true) })
	if err == nil {
		s.limiter.chargeChild(pid)
	}
	s.follower.answer(found{search: search{pid: pid, child: true, stopped: true}, err: err})
	if err == nil && s.leaks && s.atExit != exitOff {
		s.runInSession(func() {
			s.syncEvents() // its fork event makes it a target
			if t := s.attachedChild(pid); t != nil && !t.shared {
				s.stopAtExit(t)
			}
		})
	}
}

// attachedChild is the target of a child that has just got its probes, with its objects up to date: childAttached may
// not have been called yet, and the fork may have been read before the attach. It is nil if the fork is not known.
func (s *session) attachedChild(pid int) *target {
	t := s.targets[pid]
	if t != nil {
		t.objects = s.attacher.of(pid)
	}
	return t
}

// attachHeldExec attaches to a program that is stopped at its exec or has mapped code since. It reports whether it is
// done with that program. It is called outside of the session's goroutine.
func (s *session) attachHeldExec(pid int) (done bool) {
	s.names.Replaced(pid, !s.attacher.atExec(pid), now())
	s.attacher.replaced(pid)
	err := s.attacher.attachWithin(pid, holdTimeout, func() (err error) {
		done, err = s.attacher.replace(pid, s.finder.Discover)
		return err
	})
	if errors.Is(err, errTooSlow) {
		s.attachLate(pid)
	}
	if err != nil {
		s.attacher.execResumed(pid)
		s.follower.answer(found{search: search{pid: pid, exec: true}, err: err})
		return true
	}
	return done
}

// detachMoved drops the probes of a process that is stopped at an exec which a thread other than its first one called.
// The probes were tied to the first thread, and are gone with it.
func (s *session) detachMoved(pid int) {
	if err := s.attacher.release(pid); err != nil {
		s.follower.answer(found{search: search{pid: pid, exec: true}, err: err})
	}
}

// standsAtExec reports whether a process gets its probes while it is stopped at an exec.
func (s *session) standsAtExec(pid int) bool {
	return s.holds(pid) && (s.leaks || !s.tracer.Config().NoFollow)
}

// forked makes a child a target. It is called with each fork, in order.
func (s *session) forked(e event.Event) {
	if s.tracer.Config().NoFollow {
		return
	}
	s.follower.noticePending(e)
	pid, parent := int(e.Child), s.targets[int(e.PID)]
	everywhere := s.seesAnyProcess()
	if !everywhere && !s.attacher.takeAttachedAtStart(pid) {
		s.unprobed[pid] = time.Now()
	}
	t, err := holdTarget(s.fs, pid)
	if err != nil {
		if !isGone(err) { // else its events and its end are still to come
			s.warn("%v", err)
			s.missed++
		}
		return
	}
	t.forkSeen, t.since = time.Now(), e.Time
	t.child, t.shared = true, e.Flags&event.FlagSharedVM != 0
	t.objects, t.probed = s.attacher.of(pid), e.Time
	switch {
	case parent != nil:
		t.allocatesNothing = parent.allocatesNothing
		t.base, t.noAllocator, t.left, t.goHeap, t.freesUnseen = parent.base, parent.noAllocator, slices.Clone(parent.left), parent.goHeap, parent.freesUnseen
	case !everywhere:
		t.base = &analyzer.Baseline{}
	}
	if s.unprobed[pid] != (time.Time{}) && !s.guarded[pid] {
		t.base, t.probed = &analyzer.Baseline{}, 0
	}
	s.setTarget(t)
	s.take(input.Described{ProcessInfo: s.describe(t)})
	go s.awaitExit(t)
}

// seesAnyProcess reports whether a child is seen from its first instruction on, whoever it is: the probes are in files for all
// processes, or there are none and page faults are seen by process.
func (s *session) seesAnyProcess() bool {
	return s.tracer.Config().Everywhere || s.tracer.Config().Touch
}

// childAttached notes that a child has its probes, or why not.
func (s *session) childAttached(r found) {
	if r.stopped {
		s.attacher.endChildHold(r.pid)
	}
	t := s.targets[r.pid]
	if t != nil && t.exited {
		t = nil // it had the PID before
	}
	_, waiting := s.unprobed[r.pid]
	delete(s.unprobed, r.pid)
	switch {
	case r.err == nil && t != nil:
		s.attacher.takeAttachedAtStart(r.pid)
		s.probed(t, r.stopped)
	case r.err == nil: // its fork is still to come, or it has ended
	case errors.Is(r.err, errTooManyChildren): // counted there
		s.incomplete(t, r.err)
	case errors.Is(r.err, errNoParent) && t != nil: // counted as it ends, or by missedChildren
		if t.replaced { // else what it executed since would hide it
			s.missed++
		}
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

// probed notes the probes of a child that is a target.
func (s *session) probed(t *target, still bool) {
	t.objects = s.attacher.of(t.pid)
	if !t.replaced {
		t.untraced = nil
	}
	if !still && t.probed == 0 {
		t.probed = now()
		if base, err := analyzer.ReadBaseline(t.held.Process); err == nil {
			t.base = base
		}
	}
	s.take(input.Described{ProcessInfo: s.describe(t)})
	s.say("attached to the child %d", t.pid)
}

// incomplete notes that a child has no probes after all, and why.
func (s *session) incomplete(t *target, err error) {
	if t != nil {
		t.base, t.probed = &analyzer.Baseline{}, 0
		if !t.replaced {
			t.untraced = err
		}
		s.take(input.Described{ProcessInfo: s.describe(t)})
	}
}

// checkChildren queues an attach to children that should have been held and were not, and ends those whose last event
// was lost.
func (s *session) checkChildren() {
	for _, t := range s.targets {
		if t.child && !t.exited && !t.gone.IsZero() && time.Since(t.gone) > exitGrace {
			s.ended(t)
		}
	}
	for pid, since := range s.unprobed {
		t := s.targets[pid]
		switch {
		case t == nil || time.Since(since) < childStopTimeout || !s.guarded[pid]:
		case s.attacher.holdsChild(pid), launch.Holds(pid):
		case s.attacher.takeAttachedAtStart(pid): // childAttached is still to be called
			delete(s.unprobed, pid)
			s.probed(t, true)
		default:
			delete(s.guarded, pid)
			s.incomplete(t, errNotTraced)
			s.follower.queueAttach(pid)
		}
	}
}

// childEnded ends a child after its last event.
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
		s.names.Forget(pid)
	}
}

// exitGrace is how long after its exit the last event of a child may come.
const exitGrace = 2 * time.Second

// gone notes that a target's process is gone. Events of a child may still come.
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
	_, waiting := s.unprobed[pid]
	untraced := t != nil && t.child && t.untraced != nil && !s.leaks // else it is kept, and says so itself
	if untraced || waiting && !s.attacher.takeAttachedAtStart(pid) {
		s.missed++
	}
	s.nameEnded(pid)
	s.attacher.forget(pid)
	if t == nil || t.child {
		s.names.Forget(pid) // of the others execs may still be to come among the events
	}
	delete(s.unprobed, pid)
	delete(s.guarded, pid)
	delete(s.ptraceDetached, pid)
	delete(s.ptracedByOther, pid)
	delete(s.follower.noticed, pid)
	delete(s.follower.code, pid)
	if err := s.tracer.Forget(pid); err != nil {
		s.warn("%v", err)
	}
}

// missedChildren says how many children were not traced, nil if there are none.
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
	if n := s.attacher.skipped(); n > 0 {
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
