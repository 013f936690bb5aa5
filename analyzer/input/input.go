package input

import (
	"slices"

	"github.com/memtrace/memtrace/tracer/event"
)

// An Input is one thing that an Analyzer is told. The types of this package are all there are.
type Input interface{ input() }

// Events are what the traced processes did, in the order of Time. Those of processes that are not known are
// counted, and otherwise ignored. Both the array and the Events itself are lent, see the package comment:
// it is an input by its address, so that a batch costs no allocation.
type Events struct{ Events []event.Event }

// A Stack is a call stack that events to come name by its ID. Frames is lent.
type Stack struct{ event.Stack }

// Copy returns an input that stays as it is whatever the maker does with what it lent.
func Copy(in Input) Input {
	switch v := in.(type) {
	case *Events:
		return &Events{slices.Clone(v.Events)}
	case *Held:
		return &Held{slices.Clone(v.Events)}
	case Stack:
		v.Frames = slices.Clone(v.Frames)
		return v
	}
	return in
}

func (*Events) input() {}
func (Stack) input()   {}
