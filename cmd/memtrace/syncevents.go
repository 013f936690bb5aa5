//go:build linux && !viewer

package main

import "time"

const (
	// syncIdleTimeout and syncIdlePolls bound how long eventSync waits while nothing moves: for this time, and this
	// often having looked, as memtrace may itself have been stopped or starved.
	syncIdleTimeout = 2 * time.Second
	syncIdlePolls   = 100
	// syncTimeout bounds how long it takes in all: several times what it takes to apply all that the rings
	// and batches can hold.
	syncTimeout = 30 * time.Second
	syncPoll    = time.Millisecond
)

// syncEvents consumes all events until now. It reports whether it got them all in time.
func (s *session) syncEvents() bool {
	all, open := eventSync{s.tracer.Through, s.tracer.Progress, s.tracer.Hurry, s.consumeWaiting}.until(now())
	if !open {
		return s.stopping
	}
	return all
}

// An eventSync waits for the events before an instant.
type eventSync struct {
	through  func() uint64            // the time before which all events are ready to be consumed
	progress func() uint64            // grows while events are on their way
	hurry    func()                   // has them come now
	consume  func() (some, open bool) // those that are ready; open is false once there will be no more
}

// until consumes all events before limit, in ns of CLOCK_MONOTONIC. all is false if they don't come in time, open once
// there will be no more. A busy machine may need seconds to read full rings before the first event of them is ready:
// that is not waiting in vain.
func (e eventSync) until(limit uint64) (all, open bool) {
	began, moved, polls, last := time.Now(), time.Now(), 0, e.progress()
	for (time.Since(moved) < syncIdleTimeout || polls < syncIdlePolls) && time.Since(began) < syncTimeout {
		all = e.through() > limit
		some, open := e.consume()
		if all || !open {
			return all, open
		}
		if at := e.progress(); some || at != last {
			moved, polls, last = time.Now(), 0, at
		}
		if some {
			continue
		}
		polls++
		e.hurry()
		time.Sleep(syncPoll)
	}
	return false, true
}

// consumeWaiting consumes the events that have arrived. some is false if there were none; open is false once there
// will be no more.
func (s *session) consumeWaiting() (some, open bool) {
	batches := s.tracer.Batches()
	for range len(batches) + 1 { // more may come all the time
		select {
		case b, ok := <-batches:
			if !ok {
				return some, false
			}
			s.consume(b)
			some = true
		default:
			return some, true
		}
	}
	return some, true
}
