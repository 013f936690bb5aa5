//go:build linux && !viewer

package main

import (
	"cmp"
	"slices"
)

// A coverageGap is a process that keeps a job from passing, and why: see target.
type coverageGap struct {
	pid    int
	reason error
}

// endedGaps are the gaps of processes that have ended and whose PIDs have been reused.
type endedGaps struct {
	asked     []coverageGap // not checked, and were to be traced themselves, not as somebody's children
	unchecked []coverageGap // the children among those that were not checked
	untraced  []coverageGap
	more      int // beyond maxBygone
}

// maxEndedGaps bounds how many are kept one by one: more than are named.
const maxEndedGaps = 1000

// setTarget makes t the target of its PID. If another process had that PID, its gap is kept.
func (s *session) setTarget(t *target) {
	old := s.targets[t.pid]
	s.targets[t.pid] = t
	s.limiter.chargeOne(t)
	if old == nil || old == t {
		return
	}
	if old.endedBefore(t) {
		s.keepGap(old)
	}
	s.release(old)
}

// endedBefore reports whether the next target of a PID is another process. If the same process becomes a target
// twice, it has not ended: its check is still to come.
func (t *target) endedBefore(next *target) bool {
	return t.exited || t.held.StartTime != next.held.StartTime
}

// keepGap keeps the gap of a process whose PID has been reused. The PID is then removed from those that were to be
// traced.
func (s *session) keepGap(t *target) {
	b := &s.endedGaps
	list := &b.unchecked
	if i := slices.Index(s.pids, t.pid); i >= 0 {
		s.pids = slices.Delete(slices.Clone(s.pids), i, i+1)
		list = &b.asked
	}
	if s.leaks {
		b.add(list, t.pid, t.unchecked)
	} else {
		b.add(&b.untraced, t.pid, t.untraced)
	}
}

func (b *endedGaps) add(to *[]coverageGap, pid int, reason error) {
	switch {
	case reason == nil:
	case len(*to) >= maxEndedGaps:
		b.more++
	default:
		*to = append(*to, coverageGap{pid, reason})
	}
}

// release closes what a target holds of its process.
func (s *session) release(t *target) {
	s.names.Keep(t.pid)
	t.close()
}

func byPID(a, b coverageGap) int { return cmp.Compare(a.pid, b.pid) }
