package recording

import (
	"fmt"
	"reflect"

	"github.com/fxamacker/cbor/v2"

	"github.com/memtrace/memtrace/analyzer/input"
)

// Tags of inputs in a block's script. Events are followed by their number.
const (
	tagEvents = 1 + iota
	tagStack
	tagStarted
	tagDescribed
	tagExitCode
	tagLoss
	tagProcessLoss
	tagLeftOut
	tagPause
	tagMapped
	tagMemory
	tagVerdicts
	tagPaused
	tagRepair
	tagInstant
	tagNames
	tagPoolName
	tagWindow
	tagTouches
	tagGoStacks
	tagGoHeap
	tagHeld // as tagEvents; in checkpoints alone, as the next two
	tagCheckpoint
	tagCarried
	tagFreeWalk
)

// others are the types of all inputs without columns of their own, by tag.
var others = map[byte]reflect.Type{
	tagStarted:     reflect.TypeFor[input.Started](),
	tagDescribed:   reflect.TypeFor[input.Described](),
	tagExitCode:    reflect.TypeFor[input.ExitCode](),
	tagLoss:        reflect.TypeFor[input.Loss](),
	tagProcessLoss: reflect.TypeFor[input.ProcessLoss](),
	tagLeftOut:     reflect.TypeFor[input.LeftOut](),
	tagPause:       reflect.TypeFor[input.Pause](),
	tagMapped:      reflect.TypeFor[input.Mapped](),
	tagMemory:      reflect.TypeFor[input.Memory](),
	tagVerdicts:    reflect.TypeFor[input.Verdicts](),
	tagPaused:      reflect.TypeFor[input.Paused](),
	tagRepair:      reflect.TypeFor[input.Repair](),
	tagFreeWalk:    reflect.TypeFor[input.FreeWalk](),
	tagInstant:     reflect.TypeFor[input.Instant](),
	tagPoolName:    reflect.TypeFor[input.PoolName](),
	tagWindow:      reflect.TypeFor[input.Window](),
	tagTouches:     reflect.TypeFor[input.Touches](),
	tagCheckpoint:  reflect.TypeFor[input.Checkpoint](),
	tagCarried:     reflect.TypeFor[input.Carried](),
	tagGoStacks:    reflect.TypeFor[input.GoStacks](),
	tagGoHeap:      reflect.TypeFor[input.GoHeap](),
}

var tags = func() map[reflect.Type]byte {
	out := make(map[reflect.Type]byte, len(others))
	for tag, t := range others {
		out[t] = tag
	}
	return out
}()

// Bounds of one input as CBOR. An element of an array takes a byte at least and up to some hundred in memory.
const (
	maxOther    = 32 << 20
	maxElements = 1 << 20
)

var (
	encoding = must(cbor.EncOptions{}.EncMode())
	decoding = must(cbor.DecOptions{
		MaxArrayElements: maxElements, MaxMapPairs: 1 << 10, MaxNestedLevels: 8,
		TagsMd: cbor.TagsForbidden, IndefLength: cbor.IndefLengthForbidden,
	}.DecMode())
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err) // the options are constants
	}
	return v
}

// encodeOther returns an input's tag and its CBOR.
func encodeOther(in input.Input) (byte, []byte, error) {
	tag, ok := tags[reflect.TypeOf(in)]
	if !ok {
		return 0, nil, fmt.Errorf("record a %T: there is no such input", in)
	}
	b, err := encoding.Marshal(in)
	if err == nil && len(b) > maxOther {
		err = fmt.Errorf("record a %T: it takes %d bytes, and at most %d can be read back", in, len(b), maxOther)
	}
	return tag, b, err
}

// decodeOther returns the input that encodeOther was given.
func decodeOther(tag byte, b []byte) (input.Input, error) {
	t, ok := others[tag]
	if !ok || len(b) > maxOther {
		return nil, errDamaged
	}
	v := reflect.New(t)
	if err := decoding.Unmarshal(b, v.Interface()); err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	return v.Elem().Interface().(input.Input), nil
}

// timeOf is the time that an input has, 0 if it has none.
func timeOf(in input.Input) uint64 {
	switch v := in.(type) {
	case *input.Events:
		if len(v.Events) > 0 {
			return v.Events[len(v.Events)-1].Time
		}
	case input.Window:
		return v.Now
	case input.Checkpoint:
		return v.At
	case input.Memory:
		return v.Now
	case input.GoHeap:
		return v.Now
	case input.Instant:
		return v.Now
	}
	return 0
}
