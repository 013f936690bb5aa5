package recording

import (
	"github.com/memtrace/memtrace/tracer/event"
)

// eventDecoder gives the events of a block back.
type eventDecoder struct {
	model  model
	ops    []operation
	actors []actor
	calls  []call
	ids    []event.StackID
	time   uint64
	actor  uint32
}

// begin reads the dictionaries of a block.
func (x *eventDecoder) begin(cols *[columns]column, stacks *stackDecoder) error {
	x.model.reset()
	x.ops, x.actors, x.calls, x.ids = x.ops[:0], x.actors[:0], x.calls[:0], x.ids[:0]
	x.time, x.actor = 0, 0
	for c := &cols[colOpDict]; !c.done() && len(x.ops) < opsMost; {
		x.ops = append(x.ops, operation{event.Kind(c.byte()), event.Flags(c.byte()), c.uint32()})
	}
	for c := &cols[colActorDict]; !c.done(); {
		pid := c.uint32()
		tid := int64(pid) + c.signed()
		x.actors = append(x.actors, actor{pid, uint32(tid), uint16(c.uvarint())})
	}
	ref := uint32(0)
	newID := func() bool {
		id, ok := stacks.ref(&cols[colIDs], &cols[colRawIDs], &ref)
		x.ids = append(x.ids, id)
		return ok
	}
	for c := &cols[colCallIDs]; !c.done(); {
		back := c.uvarint()
		if back == 0 && !newID() || back > uint64(len(x.ids)) {
			return errDamaged
		}
		id := uint64(len(x.ids)) - max(back, 1)
		x.calls = append(x.calls, call{x.ids[id], cols[colCallSizes].uvarint()})
	}
	for _, c := range []int{colOpDict, colActorDict, colIDs, colCallIDs, colCallSizes} {
		if cols[c].bad {
			return errDamaged
		}
	}
	return nil
}

func timesBad(cols *[columns]column) bool {
	return cols[colTimes].bad || cols[colTimeLow].bad || cols[colTimeLong].bad
}

// addTime reads when the next event was.
func (x *eventDecoder) addTime(cols *[columns]column) {
	high := uint64(cols[colTimes].byte())
	if high == timeLong {
		x.time += cols[colTimeLong].uvarint()
		return
	}
	x.time += high<<8 | uint64(cols[colTimeLow].byte())
}

// next reads an event; false where the block says what can't be.
func (x *eventDecoder) next(cols *[columns]column, e *event.Event) bool {
	op := cols[colOps].byte()
	for op == opTime && !cols[colOps].bad {
		x.time = cols[colRare].uvarint()
		op = cols[colOps].byte()
	}
	x.addTime(cols)
	*e = event.Event{Time: x.time}
	if op == opRare {
		return readRare(&cols[colRare], e) && !cols[colOps].bad && !timesBad(cols)
	}
	if int(op) >= len(x.ops) || !x.readActor(&cols[colActors], e) {
		return false
	}
	o := x.ops[op]
	e.Kind, e.Flags, e.Child = o.kind, o.flags, o.interval
	switch e.Kind {
	case event.Alloc:
		if !x.readCall(&cols[colCalls], e) {
			return false
		}
		if e.Flags&event.FlagPooled != 0 {
			x.model.pool += uint64(cols[colPools].signed())
			e.Old = x.model.pool
		}
		e.Addr = x.model.addr(cols, x.actor, e.Size, 0)
	case event.Free:
		e.Addr = x.model.free(cols)
	case event.Realloc:
		if !x.readCall(&cols[colCalls], e) {
			return false
		}
		e.Began = e.Time - uint64(cols[colBegan].signed())
		e.Old = x.model.free(cols)
		e.Addr = x.model.addr(cols, x.actor, e.Size, e.Old)
	case event.Fault:
		x.model.fault += uint64(cols[colFaults].signed())
		e.Addr = x.model.fault
	}
	return !cols[colOps].bad && !timesBad(cols) && !cols[colAddrs].bad && !cols[colAddrRest].bad && !cols[colFrees].bad &&
		!cols[colFreeRest].bad && !cols[colBegan].bad && !cols[colPools].bad && !cols[colFaults].bad
}

func (x *eventDecoder) readActor(c *column, e *event.Event) bool {
	if n := c.uvarint(); n != 0 {
		if n > uint64(len(x.actors)) {
			return false
		}
		x.actor = uint32(n - 1)
	}
	if int(x.actor) >= len(x.actors) {
		return false
	}
	a := &x.actors[x.actor]
	e.PID, e.TID, e.CPU = a.pid, a.tid, a.cpu
	return !c.bad
}

func (x *eventDecoder) readCall(c *column, e *event.Event) bool {
	n := c.uvarint()
	if n >= uint64(len(x.calls)) || c.bad {
		return false
	}
	e.Stack, e.Size = x.calls[n].stack, x.calls[n].size
	return true
}

func readRare(c *column, e *event.Event) bool {
	e.Kind, e.Flags = event.Kind(c.byte()), event.Flags(c.byte())
	e.Addr, e.Size, e.Old = c.uvarint(), c.uvarint(), c.uvarint()
	e.Began = e.Time - c.uvarint()
	e.Child, e.PID, e.TID, e.CPU = c.uint32(), c.uint32(), c.uint32(), uint16(c.uvarint())
	e.Stack = event.StackID(c.uint64())
	return !c.bad
}
