//go:build linux && !viewer

package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/tracer/event"
)

var errForTest = errors.New("its memory was out of reach")

// again makes the target of a PID once more. another says that it is another process
// that has the PID by now: then it began later.
func again(t *testing.T, s *session, pid int, another bool) *target {
	t.Helper()
	next, err := holdTarget(s.fs, pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(next.close)
	next.child = true
	if another {
		next.held.StartTime++
	}
	s.setTarget(next)
	return next
}

// Why a child was not checked is said also when its PID is another one's, which was.
func TestUncheckedChildWhosePIDComesAgain(t *testing.T) {
	for name, exited := range map[string]bool{"its last event was read": true, "its last event was not read": false} {
		s, child := jobOf(t, "definite", true)
		child.unchecked, child.exited = errForTest, exited
		for range 2 { // of which the first is checked, too
			again(t, s, child.pid, true).unchecked = nil
		}
		if problems := fmt.Sprint(s.problems()); strings.Count(problems, errForTest.Error()) != 1 {
			t.Errorf("%s: problems %s, want the reason once", name, problems)
		}
		s.atExit = exitOff
		if problems := s.problems(); len(problems) != 0 {
			t.Errorf("%s: problems %q where children are not to be checked at their ends", name, problems)
		}
	}
}

// A process that becomes a target twice has not ended, and is checked in the end.
func TestChildThatBecomesATargetTwice(t *testing.T) {
	s, child := jobOf(t, "definite", true)
	again(t, s, child.pid, false).unchecked = nil
	if problems := s.problems(); len(problems) != 0 {
		t.Errorf("problems %q", problems)
	}
}

// A process that was to be traced and was not checked is no pass as its PID becomes
// that of a child, and is not taken for that either.
func TestUncheckedProcessWhosePIDComesAgain(t *testing.T) {
	s, process := jobOf(t, "definite", true)
	process.child, process.unchecked, process.exited = false, errForTest, true
	s.pids = []int{process.pid}
	again(t, s, process.pid, true).unchecked = nil
	if want := fmt.Sprintf("check process %d for leaks: %v", process.pid, errForTest); !s.saysProblem(want) {
		t.Errorf("problems %q, want %q", s.problems(), want)
	}
	again(t, s, process.pid, true)
	if want := fmt.Sprintf("check the child process %d for leaks: %v", process.pid, errEndedFirst); !s.saysProblem(want) {
		t.Errorf("problems %q, want %q", s.problems(), want)
	}
}

// Where allocations alone are counted, the same holds for a process of which nothing was seen.
func TestUntracedProcessWhosePIDComesAgain(t *testing.T) {
	s, child := jobOf(t, "allocs>1e6", false)
	child.untraced = errTooMany
	again(t, s, child.pid, true)
	if !s.saysProblem(errTooMany.Error()) {
		t.Errorf("problems %q", s.problems())
	}
}

// However many there are, they are all counted, and few are kept.
func TestManyUncheckedChildrenOfOnePID(t *testing.T) {
	s, child := jobOf(t, "definite", true)
	child.exited = true
	for range maxEndedGaps + 9 {
		again(t, s, child.pid, true).exited = true
	}
	if want := fmt.Sprintf("%d more child processes", maxEndedGaps+10-maxUnchecked); !s.saysProblem(want) {
		t.Errorf("%q, want %s", s.problems(), want)
	}
	if n := len(s.endedGaps.unchecked); n != maxEndedGaps {
		t.Errorf("%d are kept, want %d", n, maxEndedGaps)
	}
}

// The end of a process says nothing of the one that has its PID now.
func TestEndOfTheProcessBefore(t *testing.T) {
	s, first := jobOf(t, "definite", true)
	second := again(t, s, first.pid, true)
	s.childEnded(event.Event{Kind: event.Exit, PID: uint32(first.pid), Time: second.since - 1})
	s.gone(first)
	if second.exited || s.targets[second.pid] != second {
		t.Error("it has ended with the one before")
	}
	first.child = false // as a process that was to be traced: nobody waits for its last event
	s.gone(first)
	if second.exited {
		t.Error("it has ended with the one before")
	}
}

// A child that ends before its fork is read is not checked: neither
// the one that had its PID before nor nobody stands for it.
func TestChildThatEndsUnknown(t *testing.T) {
	for _, known := range []bool{false, true} {
		s, before := jobOf(t, "definite", true)
		before.unchecked, before.exited = nil, true
		if !known {
			delete(s.targets, before.pid)
		}
		if s.ending(before.pid) != nil || !s.saysProblem(errNotTraced.Error()) {
			t.Errorf("problems %q", s.problems())
		}
	}
}

// The answer about a child's attach does not belong to the process that had the PID before.
func TestBirthUnderThePIDOfAnother(t *testing.T) {
	s, before := jobOf(t, "definite", true)
	before.exited = true
	s.attacher.attachedAtStart[before.pid] = true
	s.childAttached(found{search: search{pid: before.pid, child: true, stopped: true}})
	if !s.attacher.takeAttachedAtStart(before.pid) {
		t.Error("that it has its probes from its birth on is forgotten before it is known")
	}
}
