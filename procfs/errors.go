package procfs

import "errors"

var (
	// ErrGone means that the process has ended: it is no more, or it is a
	// zombie and has no memory. From Maps, Smaps and a Pagemap it can also mean
	// that exec replaced the memory meanwhile: Held.Alive tells.
	ErrGone = errors.New("process has ended")
	// ErrKernelThread means that the process has no memory of its own
	// because it is a kernel thread.
	ErrKernelThread = errors.New("kernel thread has no user memory")
	// ErrNotSupported means that this kernel lacks the file or the operation.
	ErrNotSupported = errors.New("not supported by this kernel")
	// ErrFormat means that a file doesn't look as the kernel documents it.
	ErrFormat = errors.New("unexpected format")
)
