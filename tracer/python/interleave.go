package python

// A Frame is a Python frame as it was at an allocation.
type Frame struct {
	Code      uint64 // address of the code object; 0: no frame, but where the evaluation loop was entered
	Lines     uint64 // that of its table of lines
	Others    uint64 // of the addresses of its names and its number, where it has one: what tells it from others
	FirstLine int32
	At        int32 // the last instruction; Layout.Step
	Enters    bool  // the evaluation loop was entered for it
	Owner     uint8 // what it is part of, from 3.11 on: Layout.Owner
}

// Interleave puts the frames of a thread's interpreter between those of its native stack, innermost first: each run of them
// inside of the evaluation loop that runs it. inLoop tells whether a return address lies in the loop; python are
// the Python frames, and add appends one, if it is to be shown. Python frames whose loop lies beyond the end of the native
// stack, as that was cut, are the outermost.
func Interleave(native []uint64, python []Frame, inLoop func(ret uint64) bool, add func(to []uint64, f *Frame) []uint64) []uint64 {
	out := make([]uint64, 0, len(native)+len(python))
	next := 0
	run := func() {
		for next < len(python) {
			f := &python[next]
			next++
			if f.Code != 0 {
				out = add(out, f)
			}
			if f.Enters {
				return
			}
		}
	}
	for _, ret := range native {
		if inLoop(ret) {
			run()
		}
		out = append(out, ret)
	}
	for next < len(python) {
		run()
	}
	return out
}
