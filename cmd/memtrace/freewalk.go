//go:build linux && !viewer

package main

import (
	"errors"
	"os"
	"time"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/heapwalk"
	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/reach"
)

// describe says who a process is, and whether its frees are seen.
func (s *session) describe(t *target) analyzer.ProcessInfo {
	info := t.describe()
	if len(t.objects) > 0 { // else a child is about to get its parent's probes
		t.freesUnseen = s.allocs && !t.noAllocator && !s.attacher.keepsFrees(t.pid)
	}
	info.FreesUnseen = t.freesUnseen
	return info
}

// walkAll asks the allocators of those processes whose frees are not seen, and for which due is true, which blocks are free.
func (s *session) walkAll(isDue func(*target) bool) {
	if !s.allocs || s.stopping {
		return
	}
	var due []*target
	for _, t := range s.targets {
		if t.freesUnseen && !t.exited && !t.shared && t.held.Alive() && isDue(t) {
			due = append(due, t)
		}
	}
	s.walkFrees(due, nil)
}

// walkFrees asks the allocator's records of processes which blocks are free. threads are all threads of the only one, where it
// stands still.
func (s *session) walkFrees(due []*target, threads []reach.Thread) {
	began := now()
	if len(due) == 0 || !s.syncEvents() {
		return // the blocks stay in doubt, which the Report says
	}
	walks := make([]*analyzer.FreeWalk, len(due))
	for i, t := range due {
		walks[i] = s.lookForFree(t, began, threads)
	}
	if !s.syncEvents() {
		return
	}
	for i, t := range due {
		if walks[i] == nil || s.targets[t.pid] != t {
			continue
		}
		for _, in := range s.analyzer.FoundFree(walks[i]) {
			s.take(in)
		}
	}
}

// lookForFree looks through the heap of a process; nil where that was not possible.
func (s *session) lookForFree(t *target, began uint64, threads []reach.Thread) *analyzer.FreeWalk {
	w := s.analyzer.NewFreeWalk(uint32(t.pid), began)
	if w == nil {
		return nil
	}
	o := heapwalk.Options{Still: threads != nil}
	if len(threads) > 0 {
		o.Thread = threads[0].TID
	}
	w.Skip(s.inFlight(t))
	err := w.Look(t.held.Process, o)
	w.Skip(s.inFlight(t))
	t.walkPace.Done(time.Now(), w.Took())
	switch {
	case err == nil:
		t.lookedThrough(w.Blocks())
		s.say("process %d: looked for freed blocks in %v, %d of %d are", t.pid, w.Took().Round(time.Microsecond), w.Freed(), w.Blocks())
		return w
	case isGone(err) || !t.held.Alive():
	default:
		switch t.failedLook(err, threads != nil) {
		case lookHopeless:
			s.seeFrees(t, err)
		case lookMissed:
			s.warn("%v: what it has freed is not known", err)
		}
	}
	return nil
}

// A lookFailure is what follows from a look at a heap that failed.
type lookFailure uint8

const (
	lookLater    lookFailure = iota // another look may do
	lookMissed                      // so it may, but this one was of a process that stands still, as at its end
	lookHopeless                    // none will
)

// failedLook says what follows from the error of a look at a process that runs or stands still.
func (t *target) failedLook(err error, still bool) lookFailure {
	switch {
	case !errors.Is(err, heapwalk.ErrNoArena):
		return lookHopeless
	case still: // it may be stopped while its records are changed
		return lookMissed
	case t.lacksHeap():
		return lookHopeless
	}
	return lookLater
}

// heaplessLooks is at how many looks in a row no heap must be found before a process is taken to have none.
const heaplessLooks = 5

// lacksHeap is told that no heap was found at a look, and reports whether the process has none. One that was found
// is there still: its records were just being changed, as they also are while the first blocks are handed out.
func (t *target) lacksHeap() bool {
	t.heapless++
	return !t.walked && t.heapless >= heaplessLooks
}

// lookedThrough is told that the heap was looked through, for so many blocks. Without any nobody knows whether
// there is one.
func (t *target) lookedThrough(blocks int) {
	if blocks > 0 {
		t.walked, t.heapless = true, 0
	}
}

// newHeap is told that the process has executed another program, whose heap is another.
func (t *target) newHeap() { t.walked, t.heapless = false, 0 }

// inFlight are the blocks that a process's threads are just being given, or are resizing.
func (s *session) inFlight(t *target) []uint64 {
	blocks, err := s.tracer.Resizing(t.pid)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.warn("%v: a block that is just being resized may count as freed", err)
	}
	return append(blocks, s.pending(t)...)
}

// seeFrees puts probes on free in a process whose heap turned out not to be readable.
func (s *session) seeFrees(t *target, reason error) {
	if err := s.attacher.addFrees(t.pid, reason); err != nil && !isGone(err) {
		s.warn("%v: what process %d frees from now on is not seen", err, t.pid)
		return
	}
	s.take(input.Described{ProcessInfo: s.describe(t)})
}
