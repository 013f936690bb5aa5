//go:build linux && !viewer

package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/reach"
	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/procfs/ownthread"
	"github.com/memtrace/memtrace/tracer"
)

// Why a process has no leak check.
var (
	errEndedFirst = errors.New("it ended before its memory could be read")
	errReplaced   = errors.New("it executed another program while it was being checked")
	errNotTraced  = errors.New("its allocations were not seen")
)

// scansApart is the time between the first two scans of a process that runs.
const scansApart = time.Second

// moreApart is the time to each further one.
const moreApart = 200 * time.Millisecond

// checkLeaks checks all processes that still run, before the trace ends.
func (s *session) checkLeaks() {
	if !s.leaks || s.stopping {
		return
	}
	s.followPause()
	if s.standStill {
		s.watcher.Close() // a thread has one tracer at a time
		s.watcher = nil
	}
	// Processes go on to fork while others are checked.
	type program struct {
		*target
		number int
	}
	tried := make(map[program]bool)
	for range maxLeakRounds {
		before := len(tried)
		for _, t := range s.targets {
			p := program{t, t.programs}
			if tried[p] || t.exited || t.unchecked == nil || !t.held.Alive() {
				continue // it was checked as it ended, or never will be
			}
			tried[p] = true
			s.checkLiving(t)
			if s.endedEarly() {
				return // without probes, what was freed since would count as leaked
			}
		}
		if len(tried) == before {
			return
		}
	}
}

// maxLeakRounds bounds how often checkLeaks looks for programs that have come meanwhile.
const maxLeakRounds = 3

// checkLiving checks a process that still runs.
func (s *session) checkLiving(t *target) {
	switch {
	case t.untraced != nil:
		t.unchecked = t.untraced
	case s.standStill:
		t.unchecked = s.checkStopped(t) // nobody else looks at it: the watch is over
		if errors.Is(t.unchecked, ownthread.ErrNoAnswer) {
			s.warn("%v: it was checked without being stopped", t.unchecked)
			t.unchecked = s.checkRunning(t)
		}
	default:
		// It may have ended meanwhile, and been checked as it did.
		if err := s.checkRunning(t); t.unchecked != nil {
			t.unchecked = err
		}
	}
}

// scan reads the memory of a process once.
func (s *session) scan(t *target, check *analyzer.Check, threads []reach.Thread) error {
	if !s.syncEvents() {
		return errors.New("the events before it could not be had in time")
	}
	s.repair(t, threads)
	loss, err := s.tracer.Loss()
	if err != nil {
		return err
	}
	s.take(input.Loss{Loss: loss})
	s.pressure() // what was left out until now
	o := reach.Options{
		Threads: threads, Pending: func() []uint64 { return s.pending(t) }, AllSeen: t.base == nil, Wanted: s.wanted,
	}
	if threads == nil {
		o.Registers = s.registersOf(t)
	}
	res, err := s.analyzer.Scan(check, t.held.Process, o, now())
	if err != nil {
		return err
	}
	if check.Left() > 0 {
		s.embeddedSuppressions(t.pid)
	}
	s.say("read %d MiB of process %d in %v: %d blocks are left that no scan found a pointer to; the longest step held its memory map for less than %v",
		res.Read>>20, t.pid, res.Took.Round(time.Millisecond), check.Left(), res.LongestStep.Round(time.Microsecond))
	return nil
}

// pending are the blocks that a process's threads are just being given.
func (s *session) pending(t *target) []uint64 {
	blocks, err := s.tracer.Pending(t.pid)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.warn("%v: a block that was just being allocated may be called leaked", err)
	}
	return blocks
}

// registersOf returns what reads the registers of a process that runs, or nil
// where the kernel can't: the verdicts then say so.
func (s *session) registersOf(t *target) func() []uint64 {
	read := func() (words []uint64, err error) {
		threads, err := tracer.Registers(t.pid)
		for _, thread := range threads {
			words = append(words, thread.Words...)
		}
		return words, err
	}
	if _, err := read(); err != nil {
		s.warn("the registers of process %d are not looked at for pointers: %v", t.pid, err)
		return nil
	}
	return func() []uint64 {
		words, _ := read() // it could be done just before
		return words
	}
}

// checkRunning checks a process as it runs, by two scans and, where they
// disagree, by more.
func (s *session) checkRunning(t *target) error {
	check, err := s.analyzer.NewCheck(uint32(t.pid))
	if err != nil {
		return err
	}
	program := t.programs
	for apart := scansApart; ; apart = moreApart {
		if err := s.scan(t, check, nil); err != nil {
			return err
		}
		if !check.GoesOn() {
			break
		}
		s.consumeFor(apart)
		if t.unchecked == nil { // it has ended meanwhile, and was checked then
			return nil
		}
		if s.endedEarly() {
			return t.unchecked
		}
		if t.programs != program {
			return errReplaced
		}
	}
	if !s.syncEvents() { // what was freed meanwhile is no leak
		return errors.New("the events after it could not be had in time")
	}
	return s.conclude(check, analyzer.CheckRunning, 0)
}

// consumeFor goes on with the trace for a time: who stands still for it is not kept waiting.
func (s *session) consumeFor(d time.Duration) {
	over := time.After(d)
	for {
		select {
		case b, ok := <-s.tracer.Batches():
			if !ok {
				return
			}
			s.consume(b)
		case v := <-s.calls:
			s.runCall(v)
		case <-over:
			return
		}
	}
}

// checkStopped stops a process, checks it and lets it go on.
func (s *session) checkStopped(t *target) error {
	var check *analyzer.Check
	paused, err := whileStopped(t.held.Process, func(threads []reach.Thread) (err error) {
		check, err = s.checkStill(t, threads)
		return err
	})
	if err == nil {
		err = s.conclude(check, analyzer.CheckStopped, paused)
	}
	return err
}

// stoppedTime is how long a process's threads may take to stop. Each that runs is given less, but the kernel waits
// without end for one that is stopped already and in a frozen control group.
const stoppedTime = 5 * time.Second

// whileStopped stops a process, calls do and lets the process go on. It returns for how long that stood still.
func whileStopped(p *procfs.Process, do func([]reach.Thread) error) (time.Duration, error) {
	began := time.Now()
	var threads []reach.Thread
	var stopped, done error
	var paused time.Duration
	// ptrace belongs to a thread; should memtrace die, the kernel lets go.
	thread, err := ownthread.After(stoppedTime, func() { threads, stopped = stopThreads(p) }, func() {
		if stopped == nil {
			done = do(threads)
		}
		for _, thread := range threads {
			reach.Release(thread)
		}
		paused = time.Since(began)
	})
	if err != nil {
		return 0, fmt.Errorf("stop process %d by ptrace: %w, as from one that is both stopped and in a frozen "+
			"control group: thaw it and try again", p.PID(), err)
	}
	thread.Wait()
	return paused, errors.Join(stopped, done)
}

// stopThreads stops all threads of a process; those that it returns are
// stopped even if there is an error.
func stopThreads(p *procfs.Process) ([]reach.Thread, error) {
	var out []reach.Thread
	for {
		tids, err := p.Tasks()
		if err != nil {
			return out, err
		}
		before := len(out)
		for _, tid := range tids {
			if slices.ContainsFunc(out, func(t reach.Thread) bool { return t.TID == tid }) {
				continue
			}
			thread, err := reach.Stop(tid)
			if errors.Is(err, unix.ESRCH) {
				continue // it ended
			}
			if err != nil {
				return out, err
			}
			out = append(out, thread)
		}
		if len(out) == before { // no thread can have been made since
			return out, nil
		}
	}
}

// unchecked says which processes could not be checked for leaks, and why: a
// job must not pass as if nothing had been found.
func (s *session) unchecked() (out []error) {
	if !s.leaks {
		return nil
	}
	for _, c := range s.endedGaps.asked {
		out = append(out, fmt.Errorf("check process %d for leaks: %w", c.pid, c.reason))
	}
	for _, pid := range s.pids {
		err := errNotTraced
		if t := s.targets[pid]; t != nil {
			err = t.unchecked
		}
		if err != nil {
			out = append(out, fmt.Errorf("check process %d for leaks: %w", pid, err))
		}
	}
	children, more := s.uncheckedChildren()
	for _, c := range children[:min(len(children), maxUnchecked)] {
		out = append(out, fmt.Errorf("check the child process %d for leaks: %w", c.pid, c.reason))
	}
	if rest := max(len(children)-maxUnchecked, 0) + more; rest > 0 {
		out = append(out, fmt.Errorf("%d more child processes could not be checked for leaks", rest))
	}
	return out
}

// uncheckedChildren are the children that were to be checked and were not, by PID, and
// the number of those that are not remembered one by one.
func (s *session) uncheckedChildren() (children []coverageGap, more int) {
	if s.atExit != exitOff {
		children, more = slices.Clone(s.endedGaps.unchecked), s.endedGaps.more
	}
	for pid, t := range s.targets {
		if t.unchecked != nil && !slices.Contains(s.pids, pid) && (s.atExit != exitOff || !t.exited) {
			children = append(children, coverageGap{pid, t.unchecked})
		}
	}
	slices.SortStableFunc(children, byPID)
	return children, more
}

// uncheckedLeaks says it where no condition was set that would fail for it, and
// what no condition fails for: wrappers that exec what they are for are common.
func (s *session) uncheckedLeaks() (out []string) {
	if n := s.analyzer.UncheckedExecs(); n > 0 && s.leaks {
		out = append(out, fmt.Sprintf("%d programs that had blocks were replaced by others (exec) "+
			"and not checked for leaks before: what they lost is not known", n))
	}
	if len(s.gate.rules) > 0 {
		return out
	}
	for _, err := range s.unchecked() {
		out = append(out, err.Error())
	}
	return out
}

// maxUnchecked is how many children are named that could not be checked.
const maxUnchecked = 10

// problems are all that kept the check from being made.
func (s *session) problems() []error {
	if len(s.gate.rules) == 0 {
		return nil
	}
	out := s.unchecked()
	if !s.gate.rules.NeedTrace() {
		return out
	}
	if !s.leaks {
		out = append(out, s.untraced()...)
	}
	const instead = "(--follow=false leaves all children out)"
	if s.missed > 0 {
		out = append(out, fmt.Errorf("%s could not be attached to, or ended before %s", children(s.missed), instead))
	}
	if n := s.attacher.skipped(); n > 0 {
		out = append(out, fmt.Errorf("%s came while the probes of too many others were being removed, and were left alone %s", children(n), instead))
	}
	return out
}

// untraced says of which processes nothing is seen, and why.
func (s *session) untraced() (out []error) {
	all := slices.Clone(s.endedGaps.untraced)
	for pid, t := range s.targets {
		if t.untraced != nil {
			all = append(all, coverageGap{pid, t.untraced})
		}
	}
	slices.SortStableFunc(all, byPID)
	for _, c := range all[:min(len(all), maxUnchecked)] {
		out = append(out, fmt.Errorf("trace process %d: %w", c.pid, c.reason))
	}
	if rest := max(len(all)-maxUnchecked, 0) + s.endedGaps.more; rest > 0 {
		out = append(out, fmt.Errorf("%s more could not be traced", children(rest)))
	}
	return out
}
