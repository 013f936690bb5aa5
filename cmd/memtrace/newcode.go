//go:build linux && !viewer

package main

import (
	"errors"
	"sync"
	"time"

	"github.com/memtrace/memtrace/tracer/probe"
)

// What a process maps after its start is looked at as it comes: for its names, its
// unwinding tables and its allocator. A thread that is watched by ptrace stands
// still meanwhile, so that nothing of it has run yet. Others run on.

// stoppedAtCode says what is to be done while a thread stands still that has loaded
// code, or has run some that is not known; see launch.Hooks.
func (s *session) stoppedAtCode(tid int) (learn func()) {
	stop, ok := s.tracer.Stopped(tid)
	if !ok {
		return nil
	}
	at := now()
	return func() {
		began := time.Now()
		s.tracer.Learn(stop.PID)
		if stop.Loaded {
			s.probeLoaded(stop.PID, holdTimeout-time.Since(began))
			// Names that take longer come a little later, as those of threads that are not held.
			_ = within(holdTimeout-time.Since(began), func() error { s.lookUp(stop.PID, at); return nil })
		}
	}
}

// lookUp has what a process has mapped by now named, from any goroutine.
func (s *session) lookUp(pid int, at uint64) {
	held, err := s.fs.Hold(pid)
	if err != nil {
		return // it has been killed
	}
	defer held.Close()
	_, _ = s.names.Look(s.fs.Root(), pid, at, held.Alive) // what can't be read has no names
}

// probeLoaded attaches to the allocators in code that a process has just loaded, and of
// which nothing has run yet. It takes no longer than patience has it.
func (s *session) probeLoaded(pid int, patience time.Duration) {
	looked := make(chan []probe.Object, 1)
	err := s.attacher.attachWithin(pid, patience, func() error {
		objects, err := s.attacher.look(pid, s.finder.DiscoverNew)
		looked <- objects
		return err
	})
	var news []probe.Object
	if !errors.Is(err, errTooSlow) { // else the attacher has them all the same, and it is said
		news = <-looked
	}
	if len(news) > 0 || err != nil && !isGone(err) {
		s.follower.answer(found{search: search{pid: pid, loaded: true}, objects: news, err: err})
	}
}

// codeNews are the processes that have mapped code and run on.
type codeNews struct {
	mu   sync.Mutex
	news map[int]mapped
	wake chan struct{}
}

// mapped is what is known of code that a process has mapped.
type mapped struct {
	at     uint64 // ns of CLOCK_MONOTONIC: the first that was not looked at
	loaded bool   // by its loader, which reported it
}

// maxCodeNews bounds the processes that wait; the others are looked at once an interval.
const maxCodeNews = 4096

func newCodeNews() *codeNews {
	return &codeNews{news: make(map[int]mapped), wake: make(chan struct{}, 1)}
}

// note notes that a process has mapped code. It never blocks.
func (c *codeNews) note(pid int, at uint64, loaded bool) {
	c.mu.Lock()
	m, waits := c.news[pid]
	if !waits {
		m.at = at
	}
	m.loaded = m.loaded || loaded
	if waits || len(c.news) < maxCodeNews {
		c.news[pid] = m
	}
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *codeNews) take() map[int]mapped {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.news
	c.news = make(map[int]mapped)
	return taken
}

// restFromLooks is how long code that processes map is left alone after a look, in
// lengths of that look: reading the mappings holds up who changes them.
const restFromLooks = 10

// followCode looks at what processes map that run on, until the trace is over.
func (s *session) followCode() {
	for {
		select {
		case <-s.over:
			return
		case <-s.code.wake:
		}
		began := time.Now()
		for pid, m := range s.code.take() {
			s.lookUp(pid, m.at)
			if m.loaded || !s.tracer.WatchesLoader(pid) { // else the loader will report it, or stop for it
				s.follower.later(search{pid: pid, reported: m.loaded})
			}
		}
		time.Sleep(restFromLooks * time.Since(began))
	}
}
