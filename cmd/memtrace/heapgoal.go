//go:build linux && !viewer

package main

import (
	"runtime/debug"
	"time"
)

const (
	// startupTime is how long a trace takes to read the files, tables and names of its
	// start. After that it allocates little.
	startupTime = 10 * time.Second
	// steadyPercent is how much memtrace's heap may then grow over what is
	// in use before it is collected. With Go's 100 the memory of a trace of
	// minutes grows by half and shrinks again.
	steadyPercent = 40
)

// keepHeapSmall returns the memory that the start no longer needs to the system, and keeps
// the heap small from then on. A lower GOGC is kept.
func (s *session) keepHeapSmall() {
	s.startPercent = debug.SetGCPercent(steadyPercent)
	if s.startPercent < steadyPercent {
		s.letHeapGrow()
	}
	go debug.FreeOSMemory()
}

// letHeapGrow undoes that before the end, when all sites are named at once.
func (s *session) letHeapGrow() {
	if s.startPercent != 0 {
		debug.SetGCPercent(s.startPercent)
	}
}
