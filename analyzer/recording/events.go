package recording

import (
	"encoding/binary"

	"github.com/memtrace/memtrace/tracer/event"
)

// Operations that are not in a block's dictionary.
const (
	opRare  = 255 // the whole event stands in colRare
	opTime  = 254 // no event: the time goes on from the one in colRare
	opsMost = 254
)

// An operation is what events of a kind have in common.
type operation struct {
	kind     event.Kind
	flags    event.Flags
	interval uint32
}

// An actor is who did something.
type actor struct {
	pid, tid uint32
	cpu      uint16
}

// A call is what allocations have in common.
type call struct {
	stack event.StackID
	size  uint64
}

// eventEncoder has the state by which events are encoded within a block.
type eventEncoder struct {
	model  model
	ops    map[operation]byte
	actors map[actor]uint32
	calls  map[call]uint32
	ids    map[event.StackID]uint32
	stacks *stackEncoder // which stacks the block has
	ref    uint32        // the block's stack whose ID was written last
	time   uint64

	actor     uint32 // of the event before
	lastActor actor

	// What came lately is found without the maps.
	recentOps     [16]recentOp
	recentActors  [64]recentActor
	recentCalls   [1 << 10]recentCall
	recentIsEmpty bool
}

type recentOp struct {
	op     operation
	number byte
	known  bool
}

type recentActor struct {
	actor  actor
	number uint32
	known  bool
}

type recentCall struct {
	call   call
	number uint32
	known  bool
}

func newEventEncoder(stacks *stackEncoder) *eventEncoder {
	e := &eventEncoder{
		stacks: stacks, ops: make(map[operation]byte), actors: make(map[actor]uint32), calls: make(map[call]uint32), ids: make(map[event.StackID]uint32),
	}
	e.reset()
	return e
}

func (x *eventEncoder) reset() {
	x.model.reset()
	clear(x.ops)
	clear(x.actors)
	clear(x.calls)
	clear(x.ids)
	x.time, x.ref, x.lastActor = 0, 0, actor{}
	if !x.recentIsEmpty {
		x.recentOps, x.recentActors, x.recentCalls = [16]recentOp{}, [64]recentActor{}, [1 << 10]recentCall{}
		x.recentIsEmpty = true
	}
}

// add encodes an event.
func (x *eventEncoder) add(cols *[columns][]byte, e *event.Event) {
	if e.Time < x.time {
		cols[colOps] = append(cols[colOps], opTime)
		cols[colRare] = appendUvarint(cols[colRare], e.Time)
		x.time = e.Time
	}
	if !isPlain(e) || !x.operation(cols, e) {
		cols[colOps] = append(cols[colOps], opRare)
		x.addTime(cols, e.Time)
		addRare(cols, e)
		return
	}
	x.addTime(cols, e.Time)
	x.addActor(cols, e)
	switch e.Kind {
	case event.Alloc:
		x.addCall(cols, e)
		if e.Flags&event.FlagPooled != 0 {
			cols[colPools] = appendSigned(cols[colPools], int64(e.Old-x.model.pool))
			x.model.pool = e.Old
		}
		x.model.codeAddr(cols, x.actor, e.Addr, e.Size, 0)
	case event.Free:
		x.model.codeFree(cols, e.Addr)
	case event.Realloc:
		x.addCall(cols, e)
		cols[colBegan] = appendSigned(cols[colBegan], int64(e.Time-e.Began))
		x.model.codeFree(cols, e.Old)
		x.model.codeAddr(cols, x.actor, e.Addr, e.Size, e.Old)
	case event.Fault:
		cols[colFaults] = appendSigned(cols[colFaults], int64(e.Addr-x.model.fault))
		x.model.fault = e.Addr
	}
}

// timeLong is in colTimes for what is 255 × 256 ns or more.
const timeLong = 255

// addTime encodes when an event was, not before the one before. What is even in a program's rhythm lies apart from what is noise.
func (x *eventEncoder) addTime(cols *[columns][]byte, t uint64) {
	d := t - x.time
	x.time = t
	if d>>8 >= timeLong {
		cols[colTimes] = append(cols[colTimes], timeLong)
		cols[colTimeLong] = appendUvarint(cols[colTimeLong], d)
		return
	}
	cols[colTimes] = append(cols[colTimes], byte(d>>8))
	cols[colTimeLow] = append(cols[colTimeLow], byte(d))
}

// isPlain reports whether an event has the fields alone that are usual for its kind.
func isPlain(e *event.Event) bool {
	switch e.Kind {
	case event.Alloc:
		return e.Began == 0 && (e.Old == 0 || e.Flags&event.FlagPooled != 0)
	case event.Free, event.Fault:
		return e.Size|e.Old|e.Began|uint64(e.Stack) == 0
	case event.Realloc:
		return true
	}
	return false
}

// operation encodes what an event does. It fails where there are too many different ones.
func (x *eventEncoder) operation(cols *[columns][]byte, e *event.Event) bool {
	op := operation{e.Kind, e.Flags, e.Child}
	r := &x.recentOps[op.kind&15]
	if !r.known || r.op != op {
		number, ok := x.ops[op]
		if !ok {
			if len(x.ops) == opsMost {
				return false
			}
			number = byte(len(x.ops))
			x.ops[op] = number
			cols[colOpDict] = append(cols[colOpDict], byte(op.kind), byte(op.flags))
			cols[colOpDict] = appendUvarint(cols[colOpDict], uint64(op.interval))
		}
		*r = recentOp{op, number, true}
		x.recentIsEmpty = false
	}
	cols[colOps] = append(cols[colOps], r.number)
	return true
}

func (x *eventEncoder) addActor(cols *[columns][]byte, e *event.Event) {
	a := actor{e.PID, e.TID, e.CPU}
	if a == x.lastActor {
		cols[colActors] = append(cols[colActors], 0)
		return
	}
	r := &x.recentActors[(a.tid^uint32(a.cpu)<<3)%uint32(len(x.recentActors))]
	if !r.known || r.actor != a {
		number, ok := x.actors[a]
		if !ok {
			number = uint32(len(x.actors))
			x.actors[a] = number
			d := appendUvarint(cols[colActorDict], uint64(a.pid))
			d = appendSigned(d, int64(a.tid)-int64(a.pid))
			cols[colActorDict] = appendUvarint(d, uint64(a.cpu))
		}
		*r = recentActor{a, number, true}
		x.recentIsEmpty = false
	}
	cols[colActors] = appendUvarint(cols[colActors], uint64(r.number)+1)
	x.lastActor, x.actor = a, r.number
}

func (x *eventEncoder) addCall(cols *[columns][]byte, e *event.Event) {
	c := call{e.Stack, e.Size}
	r := &x.recentCalls[(uint64(e.Stack)^e.Size*0x9e3779b97f4a7c15)>>54]
	if !r.known || r.call != c {
		number, ok := x.calls[c]
		if !ok {
			number = uint32(len(x.calls))
			x.calls[c] = number
			id := x.idOf(cols, e.Stack)
			cols[colCallIDs] = appendUvarint(cols[colCallIDs], uint64(id))
			cols[colCallSizes] = appendUvarint(cols[colCallSizes], e.Size)
		}
		*r = recentCall{c, number, true}
		x.recentIsEmpty = false
	}
	cols[colCalls] = appendUvarint(cols[colCalls], uint64(r.number))
}

// idOf is how far back among the IDs a stack's is; 0 is a new one.
func (x *eventEncoder) idOf(cols *[columns][]byte, id event.StackID) uint32 {
	number, ok := x.ids[id]
	if !ok {
		x.ids[id] = uint32(len(x.ids))
		cols[colIDs], cols[colRawIDs] = x.stacks.appendRef(cols[colIDs], cols[colRawIDs], &x.ref, id)
		return 0
	}
	return uint32(len(x.ids)) - number
}

// addRare encodes all fields of an event but its time.
func addRare(cols *[columns][]byte, e *event.Event) {
	to := append(cols[colRare], byte(e.Kind), byte(e.Flags))
	for _, v := range []uint64{e.Addr, e.Size, e.Old, e.Time - e.Began, uint64(e.Child), uint64(e.PID), uint64(e.TID), uint64(e.CPU)} {
		to = appendUvarint(to, v)
	}
	cols[colRare] = binary.LittleEndian.AppendUint64(to, uint64(e.Stack))
}
