package tracer

import "time"

// UnknownSignal is what a thread gets that has mapped code, or that allocates
// through code of which no table is there yet, so that it waits; see Stopped. Only
// threads get it that this process watches by ptrace.
const UnknownSignal = ExitSignal

// stopsPerLayout is how many such signals the threads of a process get for
// one state of its mappings: code that will never be known stops them no more.
const stopsPerLayout = 8

// visiblePoll is how often a table that is on its way to the kernel is looked for.
const visiblePoll = 50 * time.Microsecond

// awaitVisible waits until the programs see all tables that have been loaded.
// That is long before the system calls that put them there return.
func (s *tableStore) awaitVisible() {
	for {
		s.mu.Lock()
		slots := make([]uint32, 0, len(s.coming))
		for slot := range s.coming {
			slots = append(slots, slot)
		}
		s.mu.Unlock()
		missing := false
		for _, slot := range slots {
			var id uint32
			missing = missing || s.outer.Lookup(slot, &id) != nil
		}
		if !missing {
			return
		}
		time.Sleep(visiblePoll)
	}
}
