package analyzer

// overwrites remembers where an allocation found its address still in use.
//
// Most often an event was lost. But a realloc frees its old block somewhere
// between its entry and its return, and is one event at its return; another
// thread may get the old address in between, and its event comes first:
//
//	thread 1  realloc(A) begins ─── frees A ──────────────── returns B
//	thread 2                          malloc returns A
//	events                            Alloc A (overwrites)   Realloc A→B, Began
//
// The Realloc then explains the overwrite. Only the latest overwrites of a
// process are kept; an older one stays counted.
type overwrites struct {
	at map[uint64]uint64 // address -> time, ns since Config.Start
}

const maxOverwrites = 4096

func (o *overwrites) note(addr, time uint64) {
	if o.at == nil {
		o.at = make(map[uint64]uint64)
	}
	if len(o.at) >= maxOverwrites {
		clear(o.at)
	}
	o.at[addr] = time
}

// explain says whether a realloc of addr that began then accounts for an
// overwrite there, and forgets that.
func (o *overwrites) explain(addr, began uint64) bool {
	if len(o.at) == 0 {
		return false
	}
	time, ok := o.at[addr]
	if !ok || time <= began {
		return false
	}
	delete(o.at, addr)
	return true
}
