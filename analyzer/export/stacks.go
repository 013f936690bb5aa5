package export

import "github.com/memtrace/memtrace/analyzer/report"

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

// Stacks lists what the stacks of a Report have of a kind, which must be one of Kinds. Those with nothing are left out.
func Stacks(r *report.Report, k Kind) []Stack {
	var out []Stack
	all := stacksOf(r)
	for i := range all {
		if w := all[i].weights[k.index()]; w.figure(k) > 0 {
			out = append(out, Stack{all[i].steps(), w.bytes, w.count})
		}
	}
	return out
}

func (s *stack) steps() []Step {
	path := s.path(true)
	out := make([]Step, len(path))
	for i, p := range path {
		out[i] = Step{Label: p.label, Module: p.module}
		if inner := len(path) - 1 - i; inner < len(s.frames) {
			f := s.frames[inner]
			out[i].Source, out[i].Inlined = source(f), f.Inlined
		}
	}
	return out
}

// StepsOf is a call stack as pictures have it. frames are innermost first; process names its process.
func StepsOf(process string, frames []*report.Frame) []Step {
	s := stack{}
	s.take(frames, false)
	out := []Step{{Label: clip(process)}}
	return append(out, s.steps()[1:]...)
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
