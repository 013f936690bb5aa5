package probe

import "errors"

// The reasons for which a process or a file cannot be probed. Discover and
// Inspect wrap them with what they looked at; a process that has exited is
// os.ErrProcessDone.
var (
	// ErrNoAllocator: no mapped file defines malloc and free.
	ErrNoAllocator = errors.New("no allocator found")
	// ErrGoProgram: no allocator, and the program is written in Go, whose
	// runtime has a heap of its own.
	ErrGoProgram = errors.New("a Go program that uses no C allocator: memtrace -p PID shows what its runtime samples of its heap")
	// ErrStripped: no allocator, and the program is static without symbols,
	// so that it may have one all the same.
	ErrStripped = errors.New("a static program without symbols: its allocator cannot be found; rebuild it without -s or strip")
	// ErrAllocatesNothing: no allocator, and none is missing. The program is static and its symbols
	// are all there, and it has nothing of its C library's allocator.
	ErrAllocatesNothing = errors.New("a static program without malloc: it allocates nothing")
	// Err32Bit: the file is a 32-bit ELF file.
	Err32Bit = errors.New("32-bit programs are not supported")
	// ErrNotSupportedMachine: the file is for another machine.
	ErrNotSupportedMachine = errors.New("built for another machine")
	// ErrKernelThread: the process has no memory of its own.
	ErrKernelThread = errors.New("a kernel thread: it has no user memory")
	// ErrNotELF: the file is no ELF file.
	ErrNotELF = errors.New("not an ELF file")
	// ErrFileReplaced: the path leads to another file than the mapped one.
	ErrFileReplaced = errors.New("the mapped file was deleted or replaced, and reaching it takes CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE")
)
