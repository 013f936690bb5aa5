package main

import (
	"cmp"
	"slices"
)

// A shortcoming is a process that keeps a job from passing, and why: see target.
type shortcoming struct {
	pid    int
	reason error
}

// bygones are the shortcomings of processes that have ended and whose PIDs are
// others' by now.
type bygones struct {
	asked     []shortcoming // not checked, and were to be traced themselves, not as somebody's children
	unchecked []shortcoming // the children among those that were not checked
	untraced  []shortcoming
	more      int // beyond maxBygone
}

// maxBygone bounds how many are remembered one by one: more than are named.
const maxBygone = 1000

// enlist makes t the target of its PID. Where that was another process's, what keeps
// a job from passing for that one stays.
func (s *session) enlist(t *target) {
	old := s.targets[t.pid]
	s.targets[t.pid] = t
	if old == nil || old == t {
		return
	}
	if old.endedBefore(t) {
		s.remember(old)
	}
	s.release(old)
}

// endedBefore reports whether the next target of a PID is another process. Nothing has
// ended where a process becomes a target twice: the check of it is still to come.
func (t *target) endedBefore(next *target) bool {
	return t.exited || t.held.StartTime != next.held.StartTime
}

// remember keeps what is to be said of a process that has lost its PID. From now on
// the PID is not that of a process that was to be traced.
func (s *session) remember(t *target) {
	b := &s.bygones
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

func (b *bygones) add(to *[]shortcoming, pid int, reason error) {
	switch {
	case reason == nil:
	case len(*to) >= maxBygone:
		b.more++
	default:
		*to = append(*to, shortcoming{pid, reason})
	}
}

// release lets go of what a target holds of its process.
func (s *session) release(t *target) {
	s.names.keep(t.pid)
	t.close()
}

func byPID(a, b shortcoming) int { return cmp.Compare(a.pid, b.pid) }
