package event

// PythonFrames is where the frames of a Stack begin that are no return addresses but Python frames: no process has code there
// (addresses of x86-64 and arm64 have 57 bits at most, and the rest equal to the highest). The tracer knows what they are called.
const PythonFrames = 0x0f << 56

// IsPython reports whether a frame of a Stack is a Python frame.
func IsPython(frame uint64) bool { return frame>>56 == PythonFrames>>56 }
