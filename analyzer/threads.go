package analyzer

// lastAllocs remembers each thread's latest allocation, to tell temporary
// blocks: those freed by the thread that allocated them, before it allocated
// anything else. It holds most threads directly, by their ID, and those that collide
// with them in a map. With many of those the former grows; at its limit the map
// is emptied when it gets too large: threads that have exited stay in it until then. A
// thread that is forgotten so can lose one temporary block.
type lastAllocs struct {
	direct  []lastAlloc // a power of two, or none yet
	victims map[uint32]lastAlloc
}

const (
	minLastAllocs = 1 << 9
	maxLastAllocs = 1 << 16 // 1.5 MiB
	maxVictims    = 1 << 16
)

// lastAlloc is a thread's latest block; addr is 0 once it has been freed.
type lastAlloc struct {
	tid        uint32
	addr, time uint64
}

// of returns the entry of a thread, which is valid until the next call.
func (l *lastAllocs) of(tid uint32) *lastAlloc {
	if l.direct == nil {
		l.direct = make([]lastAlloc, minLastAllocs)
		l.victims = make(map[uint32]lastAlloc)
	}
	e := &l.direct[tid%uint32(len(l.direct))]
	if e.tid != tid {
		e = l.swap(e, tid)
	}
	return e
}

// swap moves another thread's entry out of e and tid's into it, and returns where that is.
func (l *lastAllocs) swap(e *lastAlloc, tid uint32) *lastAlloc {
	l.evict(e)
	if len(l.victims) > len(l.direct)/4 && len(l.direct) < maxLastAllocs {
		l.grow()
		e = &l.direct[tid%uint32(len(l.direct))]
		if e.tid == tid {
			return e
		}
		l.evict(e)
	}
	*e = lastAlloc{tid: tid}
	if v, ok := l.victims[tid]; ok {
		delete(l.victims, tid)
		*e = v
	}
	return e
}

// evict moves an entry to the victims.
func (l *lastAllocs) evict(e *lastAlloc) {
	if e.addr == 0 {
		return
	}
	if len(l.victims) >= maxVictims {
		clear(l.victims)
	}
	l.victims[e.tid] = *e
}

// grow makes room for four times as many threads.
func (l *lastAllocs) grow() {
	direct, victims := l.direct, l.victims
	l.direct, l.victims = make([]lastAlloc, 4*len(direct)), make(map[uint32]lastAlloc)
	place := func(v lastAlloc) {
		if e := &l.direct[v.tid%uint32(len(l.direct))]; e.addr == 0 {
			*e = v
		} else {
			l.victims[v.tid] = v
		}
	}
	for _, v := range victims {
		place(v)
	}
	for _, v := range direct {
		if _, moved := victims[v.tid]; v.addr != 0 && !moved {
			place(v)
		}
	}
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
