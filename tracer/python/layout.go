package python

// Entry says which frames the evaluation loop was entered for; equal to enum python_entry of bpf/headers/python.h.
type Entry uint32

const (
	EntersAll   Entry = iota // every one: to 3.10
	EntersFlag               // those that say so: 3.11
	EntersFrame              // those inside of a frame of the loop's own: from 3.12 on
)

// Direct is Layout.Via where a thread's state points to the frame itself.
const Direct = 1<<32 - 1

// A Layout says where a version of CPython for 64 bits keeps things: offsets in bytes.
type Layout struct {
	Current uint64 // in _PyRuntime: the state of the thread that holds the GIL; 0: not there
	Key     uint64 // in _PyRuntime: the Py_tss_t of the threads' states

	ThreadID uint32 // in a thread's state: pthread_self(3)
	Frame    uint32 // in that: the innermost frame, or what points to it
	Via      uint32 // in what points to it; Direct: nothing does

	FrameBytes  uint32 // of a frame, as much as is read
	Previous    uint32
	Code        uint32
	Last        uint32 // the last instruction
	LastIsIndex bool   // it is a number of 32 bits, not an address
	Enters      uint32 // the byte that says whether the evaluation loop was entered for it; EntersFlag alone
	Owner       uint32 // the byte that says what it is part of; from 3.11 on
	Entry       Entry

	Instructions uint32 // in a code object, as what follows
	FirstLine    uint32
	FileName     uint32
	Name         uint32
	Lines        uint32 // the table of lines
	Version      uint32 // the number that no other has; 0: they have none
	Traceable    uint32 // the number of the first instruction that is the program's; 0: all are

	ASCII, Compact uint32 // sizes of the heads of str objects
	Step           int32  // bytes of code that one unit of an instruction's index stands for
}

// CodeFrom and CodeBytes say which part of a code object tells it from another one at its address.
func (l *Layout) CodeFrom() uint32  { return l.FirstLine &^ 7 }
func (l *Layout) CodeBytes() uint32 { return l.Lines + 8 - l.CodeFrom() }

// layouts are the known ones, by minor version of CPython 3: as offsetof has them with each version's headers.
var layouts = map[int]*Layout{
	8: {
		Current: 1368, Key: 1392, ThreadID: 176, Frame: 24, Via: Direct,
		FrameBytes: 112, Previous: 24, Code: 32, Last: 104, LastIsIndex: true, Entry: EntersAll, Step: 1,
		FirstLine: 40, FileName: 104, Name: 112, Lines: 120, ASCII: 48, Compact: 72,
	},
	9: {
		Current: 568, Key: 584, ThreadID: 176, Frame: 24, Via: Direct,
		FrameBytes: 112, Previous: 24, Code: 32, Last: 104, LastIsIndex: true, Entry: EntersAll, Step: 1,
		FirstLine: 40, FileName: 104, Name: 112, Lines: 120, ASCII: 48, Compact: 72,
	},
	10: {
		Current: 568, Key: 584, ThreadID: 176, Frame: 24, Via: Direct,
		FrameBytes: 112, Previous: 24, Code: 32, Last: 96, LastIsIndex: true, Entry: EntersAll, Step: 2,
		FirstLine: 40, FileName: 104, Name: 112, Lines: 120, ASCII: 48, Compact: 72,
	},
	11: {
		Current: 576, Key: 592, ThreadID: 152, Frame: 56, Via: 8,
		FrameBytes: 72, Previous: 48, Code: 32, Last: 56, Enters: 68, Owner: 69, Entry: EntersFlag, Step: 1,
		Instructions: 184, FirstLine: 72, FileName: 112, Name: 128, Lines: 136, Traceable: 168, ASCII: 48, Compact: 72,
	},
	12: {
		Key: 1544, ThreadID: 136, Frame: 56, Via: 0,
		FrameBytes: 72, Previous: 8, Code: 0, Last: 56, Owner: 70, Entry: EntersFrame, Step: 1,
		Instructions: 192, FirstLine: 68, FileName: 112, Name: 128, Lines: 136, Version: 92, Traceable: 176, ASCII: 40, Compact: 56,
	},
	13: {
		Key: 2160, ThreadID: 152, Frame: 72, Via: Direct,
		FrameBytes: 72, Previous: 8, Code: 0, Last: 56, Owner: 70, Entry: EntersFrame, Step: 1,
		Instructions: 200, FirstLine: 68, FileName: 112, Name: 128, Lines: 136, Version: 92, Traceable: 184, ASCII: 40, Compact: 56,
	},
}

// The words of _Py_DebugOffsets (3.13) that a Layout is checked against.
const (
	debugCookie       = "xdebugpy"
	debugFreeThreaded = 2
	debugFrame        = 23 // thread_state.current_frame
	debugThreadID     = 24
	debugPrevious     = 29
	debugExecutable   = 30
	debugInstruction  = 31
	debugOwner        = 33
	debugFileName     = 35
	debugQualName     = 37
	debugLines        = 38
	debugFirstLine    = 39
	debugInstructions = 43
	debugWords        = 44
)

// agrees reports whether a Layout is what the interpreter itself says, in the words that _PyRuntime begins with from 3.13 on.
func (l *Layout) agrees(words []uint64) bool {
	for i, want := range map[int]uint32{
		debugFreeThreaded: 0, debugFrame: l.Frame, debugThreadID: l.ThreadID, debugPrevious: l.Previous, debugExecutable: l.Code,
		debugInstruction: l.Last, debugOwner: l.Owner, debugFileName: l.FileName, debugQualName: l.Name, debugLines: l.Lines,
		debugFirstLine: l.FirstLine, debugInstructions: l.Instructions,
	} {
		if words[i] != uint64(want) {
			return false
		}
	}
	return true
}
