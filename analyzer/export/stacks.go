package export

import (
	"iter"
	"slices"

	"github.com/memtrace/memtrace/analyzer/report"
)

// A Step is a frame as pictures have it: those of one function in one file are one. All texts are safe to print, and of
// bounded length.
type Step struct {
	Label, Module, Source string // Source is file:line; "" where it is not known
	Inlined               bool
}

// A Stack is a call stack, and what it has of one kind.
type Stack struct {
	Steps []Step // from the process to the innermost frame
	Bytes uint64 // 0 where the kind is a count
	Count uint64 // 0 where it is not known
}

// Stacks yields what the stacks of a Report have of a kind, which must be one of Kinds. Those with nothing are left out.
// Steps are lent until the next one.
func Stacks(r *report.Report, k Kind) iter.Seq[Stack] {
	all := stacksOf(r)
	return func(yield func(Stack) bool) {
		x := NewStepper()
		for i := range all {
			w := all[i].weights[k.index()]
			if w.figure(k) > 0 && !yield(Stack{x.stack(&all[i]), w.bytes, w.count}) {
				return
			}
		}
	}
}

// A Stepper makes Steps of frames, which mostly stand in many stacks. It is for one goroutine.
type Stepper struct {
	known map[*report.Frame]Step
	lent  []Step
}

// NewStepper makes one for the frames of one Report or the like.
func NewStepper() *Stepper { return &Stepper{known: make(map[*report.Frame]Step)} }

// Step is a frame as pictures have it.
func (x *Stepper) Step(f *report.Frame) Step {
	s, ok := x.known[f]
	if !ok {
		s = Step{Label: label(f), Module: clip(f.Module), Source: source(f), Inlined: f.Inlined}
		x.known[f] = s
	}
	return s
}

// Steps is a call stack as pictures have it, lent until the next one. frames are innermost first; process names its process.
func (x *Stepper) Steps(process string, frames []*report.Frame) []Step {
	s := stack{}
	s.take(frames, false)
	x.stack(&s)
	x.lent[0].Label = clip(process)
	return x.lent
}

func (x *Stepper) stack(s *stack) []Step {
	x.lent = x.lent[:0]
	for _, p := range s.above() {
		x.lent = append(x.lent, Step{Label: p})
	}
	for i := len(s.frames) - 1; i >= 0; i-- {
		x.lent = append(x.lent, x.Step(s.frames[i]))
	}
	return x.lent
}

// StepsOf is a call stack as Stepper.Steps makes it, to keep.
func StepsOf(process string, frames []*report.Frame) []Step {
	return slices.Clip(NewStepper().Steps(process, frames))
}

// A Change is a call stack in two Reports, and what it has of a kind in each: bytes, or a count where the kind is one.
type Change struct {
	Steps         []Step
	Before, After uint64
}

// Changes lists the stacks of two Reports. They match by their functions.
func Changes(before, after *report.Report, k Kind) []Change {
	all := difference(before, after, k)
	out := make([]Change, len(all))
	for i := range all {
		steps := make([]Step, len(all[i].path))
		for j, p := range all[i].path {
			steps[j] = Step{Label: p.label, Module: p.module}
		}
		out[i] = Change{steps, all[i].before, all[i].after}
	}
	return out
}

// A Total is what a Report has of a kind.
type Total struct {
	Kind  Kind   `json:"kind"`
	Title string `json:"title"`
	Thing string `json:"thing"` // what is counted, in the singular
	Unit  string `json:"unit"`  // bytes or count
	Bytes uint64 `json:"bytes"`
	Count uint64 `json:"count"`
}

// Totals sums up a Report by kind, in the order of Kinds.
func Totals(r *report.Report) []Total {
	all := stacksOf(r)
	out := make([]Total, 0, len(kinds))
	for _, k := range kinds {
		sum := total(all, k.kind)
		out = append(out, Total{k.kind, k.title, k.what, k.unit, sum.bytes, sum.count})
	}
	return out
}

// Counts reports whether the kind, which must be one of Kinds, has no bytes but a number of things.
func (k Kind) Counts() bool { return k.counts() }
