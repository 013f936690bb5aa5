//go:build linux && !viewer

package main

import (
	"testing"
	"testing/synctest"
	"time"
)

// A machine that is busy, or a memtrace that was stopped, takes long to have all events; who waits for them must not
// give up as long as they are on their way, and not wait without end when they aren't.
func TestSyncGivesUpOnlyWhereNothingMoves(t *testing.T) {
	for name, c := range map[string]struct {
		ready   time.Duration // until all events are ready
		reading bool          // rings are being read until then
		coming  bool          // some events come at each look
		pollFor time.Duration // each look takes this long
		closed  bool          // there will be no more
		all     bool
		least   time.Duration
		most    time.Duration
	}{
		"ready": {all: true},
		"full rings": {
			ready: 10 * time.Second, reading: true,
			all: true, least: 10 * time.Second, most: 11 * time.Second,
		},
		"some events": {
			ready: 10 * time.Second, coming: true,
			all: true, least: 10 * time.Second, most: 11 * time.Second,
		},
		"nothing moves": {
			ready: time.Hour,
			least: syncIdleTimeout, most: 2 * syncIdleTimeout,
		},
		"too much to read": {
			ready: time.Hour, reading: true,
			least: syncTimeout, most: syncTimeout + time.Second,
		},
		"starved": {
			ready: 5 * time.Second, pollFor: 500 * time.Millisecond,
			all: true, least: 5 * time.Second, most: 6 * time.Second,
		},
		"starved, nothing moves": {
			ready: time.Hour, pollFor: 500 * time.Millisecond,
			least: syncTimeout, most: syncTimeout + time.Second,
		},
		"closed": {ready: time.Hour, closed: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				e := eventSync{
					through: func() uint64 {
						if time.Since(began) >= c.ready {
							return 101
						}
						return 100
					},
					progress: func() uint64 {
						if c.reading {
							return uint64(time.Since(began) / time.Second) // not at each look
						}
						return 0
					},
					hurry: func() { time.Sleep(c.pollFor) },
					consume: func() (some, open bool) {
						if c.coming {
							time.Sleep(100 * time.Millisecond)
						}
						return c.coming, !c.closed
					},
				}
				all, open := e.until(100)
				if all != c.all || open == c.closed {
					t.Errorf("all: %v, open: %v", all, open)
				}
				if took := time.Since(began); took < c.least || took > c.most {
					t.Errorf("took %v, want %v to %v", took, c.least, c.most)
				}
			})
		})
	}
}
