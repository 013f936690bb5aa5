package main

import (
	"runtime/debug"
	"time"
)

const (
	// settledAfter is when a trace has read the files, tables and names of its
	// start, and goes on to allocate little.
	settledAfter = 10 * time.Second
	// settledPercent is by how much memtrace's heap may then grow over what is
	// in use before it is collected: with Go's 100 the memory of a trace of
	// minutes grows by half and shrinks again.
	settledPercent = 40
)

// keepSmall returns what the start has left over to the system, and keeps the
// heap small from here on; where GOGC asks for less, that stands.
func (s *session) keepSmall() {
	s.startPercent = debug.SetGCPercent(settledPercent)
	if s.startPercent < settledPercent {
		s.letGrow()
	}
	go debug.FreeOSMemory()
}

// letGrow is for the end, which names all sites at once.
func (s *session) letGrow() {
	if s.startPercent != 0 {
		debug.SetGCPercent(s.startPercent)
	}
}
