package main

import (
	"time"

	"github.com/memtrace/memtrace/tracer/launch"
)

// ending is a program that stands still at its end until done is closed.
type ending struct {
	launch.Ending
	done chan struct{}
}

// atExit is called where a program stands still at its end: it returns once
// the session has looked at it.
func (s *session) atExit(e launch.Ending) {
	at := &ending{e, make(chan struct{})}
	select {
	case s.endings <- at:
		<-at.done
	case <-s.over:
	}
}

// lookAtEnd takes the last figures of a program that stands still at its end.
func (s *session) lookAtEnd(e *ending) {
	defer close(e.done)
	t := s.targets[e.PID]
	if t == nil || t.exited || s.stopping {
		return
	}
	s.settle()
	s.correlateTarget(t)
	if s.leaks {
		t.unchecked = s.checkAtEnd(t, e.Threads)
	}
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
