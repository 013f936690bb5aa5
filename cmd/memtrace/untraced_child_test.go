//go:build linux && !viewer

package main

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/gate"
	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/tracer/launch"
	"github.com/memtrace/memtrace/tracer/probe"
)

// discardOutput drops warnings, too.
type discardOutput struct{ noOutput }

func (discardOutput) warning(string) {}

// jobOf is a session without a tracer that has one child, to be judged by a
// rule. The child is the process that runs this test's binary.
func jobOf(t *testing.T, rule string, leaks bool) (*session, *target) {
	t.Helper()
	rules, err := gate.ParseRules([]string{rule})
	if err != nil {
		t.Fatal(err)
	}
	fs, err := procfs.New("/proc")
	if err != nil {
		t.Fatal(err)
	}
	a := analyzer.New(analyzer.Config{})
	t.Cleanup(a.Close)
	s := &session{
		settings: settings{leaks: leaks, atExit: exitAfter, gate: &job{rules: rules}},
		fs:       fs, analyzer: a, out: discardOutput{}, attacher: newAttacher(nil, fs, false), names: noNames(t),
		targets: make(map[int]*target), unprobed: make(map[int]time.Time),
	}
	child, err := holdTarget(fs, os.Getppid())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(child.close)
	child.child = true
	s.targets[child.pid] = child
	return s, child
}

// saysProblem reports whether a job is kept from passing by a problem.
func (s *session) saysProblem(text string) bool {
	err := errors.Join(s.problems()...)
	return err != nil && strings.Contains(err.Error(), text)
}

// A child that did not get its probes is not found to be without leaks at its
// end, as nothing was seen of it.
func TestUntracedChildIsNoPass(t *testing.T) {
	for _, reason := range []error{errTooSlow, errTooManyChildren, errors.New("too many open files")} {
		s, child := jobOf(t, "definite", true)
		s.childAttached(found{search: search{pid: child.pid, child: true, stopped: true}, err: reason})
		child.unchecked = s.checkEnding(child, launch.Ending{PID: child.pid})
		if !s.saysProblem(reason.Error()) {
			t.Errorf("%v: problems %q", reason, s.problems())
		}
		s.probed(child, true)
		if child.untraced != nil {
			t.Errorf("%v: with its probes it is still untraced: %v", reason, child.untraced)
		}
	}
}

// What failed is reported, and fails a job, even where the session gets to it only once the trace stops. That is chance.
func TestUntracedProcessIsNoPassAtTheEnd(t *testing.T) {
	for _, r := range []found{
		{search: search{child: true, stopped: true}, err: errTooSlow},
		{search: search{child: true}, err: errNoParent},
		{search: search{exec: true}, err: probe.ErrStripped},
	} {
		s, child := jobOf(t, "allocs>1e6", false)
		s.follower = &follower{results: make(chan found, 1)}
		s.stopping, r.pid = true, child.pid
		s.follower.results <- r
		s.drain()
		if child.untraced == nil || !s.saysProblem(r.err.Error()) {
			t.Errorf("%v: untraced %v, problems %q", r.err, child.untraced, s.problems())
		}
	}
}

// A child that is stopped at its first instruction for long, as on a slow machine, is not taken for one that runs:
// its blocks would be taken for older than its probes.
func TestSlowBirthIsWaitedFor(t *testing.T) {
	s, child := jobOf(t, "definite", true)
	s.guarded, s.follower = map[int]bool{child.pid: true}, &follower{attachQueue: make(chan int, 1)}
	s.unprobed[child.pid] = time.Now().Add(-childStopTimeout)
	s.attacher.beginChildHold(child.pid)
	s.checkChildren()
	if child.untraced != nil || !s.guarded[child.pid] || len(s.follower.attachQueue) != 0 {
		t.Errorf("a child that stands still is taken for one that runs: %v", child.untraced)
	}
	s.childAttached(found{search: search{pid: child.pid, child: true, stopped: true}})
	s.unprobed[child.pid] = time.Now().Add(-childStopTimeout)
	s.checkChildren()
	if child.untraced == nil || s.guarded[child.pid] || len(s.follower.attachQueue) != 1 {
		t.Error("a child that should stand still and does not is waited for, forever")
	}
}

// The answer about a child's attach often comes after the child has executed a program, of
// which it says nothing.
func TestLateNewsOfABirth(t *testing.T) {
	s, child := jobOf(t, "definite", true)
	child.replaced = true
	s.childAttached(found{search: search{pid: child.pid, child: true, stopped: true}, err: errTooSlow})
	if child.untraced != nil {
		t.Errorf("a program that is traced is not any more, by its process's birth: %v", child.untraced)
	}
	child.untraced = errNotTraced
	s.childAttached(found{search: search{pid: child.pid, child: true, stopped: true}})
	if child.untraced == nil {
		t.Error("a program that is not traced is, by its process's birth")
	}
}

// A child is no pass either where allocations alone are counted, while the child runs and after its end.
func TestUntracedChildIsNoPassForCounts(t *testing.T) {
	s, child := jobOf(t, "allocs>1e6", false)
	if problems := s.problems(); len(problems) != 0 {
		t.Fatalf("problems %q before anything went wrong", problems)
	}
	s.noteUntraced(child.pid, errTooMany)
	if !s.saysProblem(errTooMany.Error()) {
		t.Errorf("problems %q", s.problems())
	}
	s.noteUntraced(1<<30, errTooMany) // of which there is no target
	if !s.saysProblem("1 child process could not be attached to") {
		t.Errorf("problems %q", s.problems())
	}
	rss, other := jobOf(t, "rss>1GiB", false)
	rss.noteUntraced(other.pid, errTooMany)
	if problems := rss.problems(); len(problems) != 0 {
		t.Errorf("a limit on memory has problems %q", problems)
	}
}

// Children that were left alone fail a job also where nothing else is known of them.
func TestChildrenLeftAloneAreNoPass(t *testing.T) {
	s, _ := jobOf(t, "definite", true)
	s.attacher.skippedChildren = 3
	if !s.saysProblem("3 child processes came while") {
		t.Errorf("problems %q", s.problems())
	}
}

// A child without probes that has executed a program by then, which has some, is said to be missed.
func TestMissedBeforeAnExec(t *testing.T) {
	for _, replaced := range []bool{false, true} {
		s, child := jobOf(t, "definite", true)
		child.replaced = replaced
		s.childAttached(found{search: search{pid: child.pid, child: true, stopped: true}, err: errNoParent})
		if got := s.missedChildren(); len(got) != 1 || !strings.HasPrefix(got[0], "1 child process could not be attached to") {
			t.Errorf("replaced %v: %q", replaced, got)
		}
	}
}

// A program that another tracer took while an attach to it was under way gets no probes by that.
func TestLateAttachToWhatAnotherTraces(t *testing.T) {
	s, child := jobOf(t, "definite", true)
	s.attacher.left[child.pid] = true
	if _, err := s.attacher.extend(child.pid, nil); !errors.Is(err, errTracedByOther) {
		t.Errorf("it is attached to: %v", err)
	}
	s.attacher.forget(child.pid)
	if len(s.attacher.left) != 0 {
		t.Error("another process that gets its ID would be left, too")
	}
}

// A program that was let go before its attach was done may call ptrace unseen until it is done, and a child that was
// left alone until it executes a program, if its parent may call it.
func TestProgramsThatMayCallPtrace(t *testing.T) {
	s, child := jobOf(t, "definite", true)
	a, pid := s.attacher, child.pid
	attaches, done := make(chan struct{}), make(chan struct{})
	err := a.attachWithin(pid, 0, func() error { <-attaches; close(done); return nil })
	if !errors.Is(err, errTooSlow) || !a.mayPtrace(pid) {
		t.Errorf("while it is attached to (%v), it may not call ptrace unseen", err)
	}
	close(attaches)
	<-done
	for deadline := time.Now().Add(10 * time.Second); a.mayPtrace(pid) && time.Now().Before(deadline); {
		runtime.Gosched()
	}
	if a.mayPtrace(pid) {
		t.Error("once it is attached to, it may still")
	}
	for _, ptraces := range []bool{true, false} {
		a.tracing[1] = probe.Tracing{Ptraces: ptraces}
		a.noteInherited(pid, 1, errTooManyChildren)
		if a.mayPtrace(pid) != ptraces {
			t.Errorf("a child that was left alone may call ptrace: %v, its parent %v", !ptraces, ptraces)
		}
		a.replaced(pid)
	}
	if a.mayPtrace(pid) || len(a.attaches) != 0 {
		t.Error("what it has executed since is taken for what its parent was")
	}
}
