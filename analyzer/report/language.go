package report

import "slices"

// LanguagePython is the Language of frames of CPython's interpreter.
const LanguagePython = "python"

// Interpreted returns the innermost frame of a stack that is of an interpreter's program, and its index; -1: there is none.
func Interpreted(stack []*Frame) (*Frame, int) {
	i := slices.IndexFunc(stack, func(f *Frame) bool { return f.Language != "" })
	if i < 0 {
		return nil, -1
	}
	return stack[i], i
}

// FoldInterpreter returns a stack without the machine code of the interpreters that have frames in it: what a reader
// of such frames knows goes on below each of them. Code of extensions, and of the libraries that they call, stays.
func FoldInterpreter(stack []*Frame) []*Frame {
	_, first := Interpreted(stack)
	if first < 0 {
		return stack
	}
	own := make(map[string]bool)
	for _, f := range stack[first:] {
		if f.Language != "" && f.Module != "" {
			own[f.Module] = true
		}
	}
	out := make([]*Frame, 0, len(stack))
	for _, f := range stack {
		if f.Language != "" || !own[f.Module] {
			out = append(out, f)
		}
	}
	return out
}
