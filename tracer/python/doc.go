// Package python knows CPython from outside: which processes run one, where each version keeps the frames of its
// threads (Layout, for the walker in bpf/headers/python.h), what the code objects of those frames are called
// (Image), and where in a native stack each run of them belongs (Interleave).
//
// All that is read of a process is the process's own word and may change while it is read: every length is bounded, and
// what is not what it has to be gives a frame without a name, never another one's.
//
// An Image, and a Names, may be used from several goroutines.
//
// Sources: CPython's Include/internal/pycore_frame.h, pycore_code.h, pycore_runtime.h and Objects/locations.md of each version.
package python
