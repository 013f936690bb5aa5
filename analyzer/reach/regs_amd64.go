package reach

// Places in the words of NT_PRSTATUS (struct user_regs_struct).
const (
	regCall  = 15 // orig_rax; negative where the thread is in no system call
	regStack = 19 // rsp
)

// redZone is the memory below the stack pointer that a function may use
// without moving it (System V ABI for x86-64, 3.2.2).
const redZone = 128

// returnsSave says that return probes' trampoline saves registers on the stack, where it
// is a system call: see remains.go.
const returnsSave = true

const regThread = 21 // fs_base

// recordOffset is where a struct pthread has its list (nptl/descr.h: the header before it has that size).
const recordOffset = 0x2c0

const swissGroup = 16 // hashbrown's groups of control bytes, with SSE2

// interrupted reports whether a thread that stands still does so outside of system calls.
func (t *Thread) interrupted() bool { return len(t.Words) > regCall && int64(t.Words[regCall]) < 0 }
