package tracer

import (
	"time"

	"github.com/memtrace/memtrace/bpf"
)

// UnknownSignal is what a thread gets that allocates through code of which no
// table is there yet, so that it waits for it; see StoppedForTables. Only
// threads get it that this process watches by ptrace.
const UnknownSignal = ExitSignal

// stopsPerLayout is how many such signals the threads of a process get for
// one state of its mappings: code that will never be known stops them no more.
const stopsPerLayout = 8

// StoppedForTables reports whether a thread got UnknownSignal because of code
// that is not known, and forgets that it did. The caller, which sees the
// signal first, drops it and lets the thread stand still while it calls learn.
// learn is nil for a signal that is anything else.
func (t *Tracer) StoppedForTables(tid int) (learn func()) {
	if t.keeper == nil {
		return nil
	}
	var pid uint32
	stopped := t.kernel.coll.Maps[bpf.MemtraceMapStopped]
	if stopped.Lookup(uint32(tid), &pid) != nil || stopped.Delete(uint32(tid)) != nil {
		return nil
	}
	s := t.keeper.spaces
	return func() {
		_, _ = s.reload(int(pid)) // what fails is tried again when it is met
		s.tables.awaitVisible()
	}
}

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
