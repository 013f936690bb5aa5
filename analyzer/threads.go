package analyzer

// lastAllocs remembers each thread's latest allocation, to tell temporary
// blocks: those freed by the thread that allocated them, before it allocated
// anything else. It holds threadCache threads directly and those that collide
// with them in a map, which is emptied when it gets too large: threads that
// have exited stay in it until then. A thread that is forgotten so can lose one
// temporary block.
type lastAllocs struct {
	direct  [threadCache]lastAlloc
	victims map[uint32]lastAlloc
}

const (
	threadCache = 512
	maxVictims  = 1 << 16
)

// lastAlloc is a thread's latest block; addr is 0 once it has been freed.
type lastAlloc struct {
	tid        uint32
	addr, time uint64
}

// of returns the entry of a thread, which is valid until the next call.
func (l *lastAllocs) of(tid uint32) *lastAlloc {
	e := &l.direct[tid%threadCache]
	if e.tid != tid {
		l.swap(e, tid)
	}
	return e
}

// swap moves another thread's entry out of e and tid's into it.
func (l *lastAllocs) swap(e *lastAlloc, tid uint32) {
	if l.victims == nil {
		l.victims = make(map[uint32]lastAlloc)
	}
	if e.addr != 0 {
		if len(l.victims) >= maxVictims {
			clear(l.victims)
		}
		l.victims[e.tid] = *e
	}
	if v, ok := l.victims[tid]; ok {
		delete(l.victims, tid)
		*e = v
		return
	}
	*e = lastAlloc{tid: tid}
}

// allocated notes that thread tid got the block at addr at this time.
func (l *lastAllocs) allocated(tid uint32, addr, time uint64) {
	e := l.of(tid)
	e.addr, e.time = addr, time
}

// temporary says whether a block that tid frees is its latest one.
func (l *lastAllocs) temporary(tid uint32, b block) bool {
	e := l.of(tid)
	return e.addr == b.addr && e.time == b.time && b.addr != 0
}
