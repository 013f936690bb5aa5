//go:build linux && !viewer

package main

import (
	"errors"
	"slices"
	"time"

	"github.com/memtrace/memtrace/analyzer/heapwalk"
	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/reach"
	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/tracer"
	"github.com/memtrace/memtrace/tracer/probe"
)

// losses are the events that were lost of each process, as far as the analyzer knows of them.
type losses map[uint32]struct {
	count uint64
	until uint64 // ns, CLOCK_MONOTONIC: when that was all
}

// noteLoss tells the analyzer what a process lost until now. Nothing is noted where
// the analyzer does not know the process, so that it hears of it the next time.
func (s *session) noteLoss(l tracer.ProcessLoss, until uint64) {
	if !s.analyzer.Knows(l.PID, l.Last) {
		return
	}
	told := s.losses[l.PID]
	s.take(input.ProcessLoss{PID: l.PID, Events: l.Count - told.count, First: max(l.First, told.until), Last: l.Last})
	told.count, told.until = l.Count, until
	s.losses[l.PID] = told
}

// noteLosses tells the analyzer which processes lost events since the last time.
func (s *session) noteLosses() {
	at := now()
	all, err := s.tracer.ProcessLosses()
	if err != nil {
		s.warn("%v", err)
	}
	for _, l := range all {
		s.noteLoss(l, at)
	}
}

// repairsApart is the time between the two looks at a process that runs.
const repairsApart = 50 * time.Millisecond

// repair finds the blocks that a process freed unseen, where events of it were
// lost and its allocator's own records can be read. threads are all of its
// threads where it stands still; nil: it runs.
func (s *session) repair(t *target, threads []reach.Thread) {
	s.noteLosses()
	if t.freesUnseen {
		s.walkFrees([]*target{t}, threads)
		return
	}
	if !s.analyzer.HasLost(uint32(t.pid)) {
		return
	}
	if !s.syncEvents() {
		return // the blocks stay in doubt, which the Report says
	}
	s.noteLosses()
	r := s.analyzer.NewRepair(uint32(t.pid), now())
	if r == nil || !s.isGlibcAlone(t) {
		return
	}
	o := heapwalk.Options{Still: threads != nil}
	looks := 1
	if threads == nil {
		looks = 2
	} else if len(threads) > 0 {
		o.Thread = threads[0].TID
	}
	r.Skip(s.pending(t))
	for i := range looks {
		if i > 0 {
			s.consumeFor(repairsApart)
		}
		if err := r.Look(t.held.Process, o); err != nil {
			if !errors.Is(err, procfs.ErrGone) && !errors.Is(err, heapwalk.ErrNoArena) {
				s.warn("%v", err)
			}
			return
		}
		r.Skip(s.pending(t))
	}
	if !s.syncEvents() {
		return
	}
	if found, ok := s.analyzer.Found(r); ok {
		s.take(found)
	}
	done := s.analyzer.Repaired(uint32(t.pid))
	s.say("process %d: %d blocks of %d bytes in all were freed unseen", t.pid, done.Count, done.Bytes)
}

// isGlibcAlone reports whether all blocks of a process that were traced are
// such as glibc's records list.
func (s *session) isGlibcAlone(t *target) bool {
	return len(s.functions.Functions) == 0 && !slices.ContainsFunc(t.objects, func(o probe.Object) bool {
		return o.Family != probe.Glibc && o.Family != probe.FamilyUnknown
	})
}

// repairAll repairs what is known of all processes that still run, before the trace ends.
func (s *session) repairAll() {
	if s.stopping || !s.syncEvents() { // children may be among what waits
		return
	}
	s.walkAll(func(*target) bool { return true })
	for _, t := range s.targets {
		if !t.exited && !t.shared && !t.freesUnseen && t.held.Alive() {
			s.repair(t, nil)
		}
	}
}
