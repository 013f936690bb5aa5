package reach

// Kind says how a block is held.
type Kind uint8

const (
	Reachable Kind = iota // a chain of pointers to starts of blocks leads from a root to it
	Possible              // only one with a pointer into a block, or an unaligned one, does
	Indirect              // only leaked blocks point to it
	Definite              // nothing points to it, or only what it leads to itself
)

var kindWords = [...]string{"reachable", "possible", "indirect", "definite"}

// String returns the kind's word, as in a Report.
func (k Kind) String() string { return kindWords[k] }

// RootKind says what kind of memory a root is in.
type RootKind uint8

// The kinds, in the order in which they are followed: a block counts for the
// first that leads to it. So what only the later ones lead to, which may be
// remains of what was freed, is told apart.
const (
	Globals     RootKind = iota // data of the program and its libraries
	ThreadLocal                 // thread-local variables, thread control blocks, what the loader keeps beside them
	Stacks                      // of threads, as far as they are in use
	Registers                   // and what is just being handed out, or came into use during the scan
	SharedMemory
	Anonymous        // that has no block: of mmap, stacks that are no thread's
	HeapBeforeAttach // of glibc, where not every block is known: what is in none that is
	AllocatorMemory  // of mmap that has blocks, outside of them: also an allocator's own records
	RootKinds
)

// Sum counts blocks.
type Sum struct{ Count, Bytes uint64 }
