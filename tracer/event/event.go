package event

// Kind says what happened.
type Kind uint8

const (
	// Alloc is a successful allocation: Addr and Size, made at Time: taken when
	// the allocator returned or, where its result was predicted, as it was called
	// (Tracer.Pending).
	Alloc Kind = 1 + iota
	// Free releases the block at Addr. Time is taken before the allocator
	// runs, so it precedes every event that reuses the address.
	Free
	// Realloc moved (or resized in place) the block at Old to Addr with Size.
	// Began is the time of entry: the address Old may have been handed out
	// again by another thread at any time from Began on. Old is 0 where the
	// call acted as malloc; Addr is 0 where it acted as free.
	Realloc
	// AllocFailed is an allocation of Size that returned no memory.
	AllocFailed
	// ReallocFailed is a reallocation of Old to Size that failed: the block
	// at Old is still live.
	ReallocFailed
	// Mmap is a mapping of Size bytes at Addr made outside the allocator; with
	// FlagBrk, memory that the program break has grown by. Size is 0 for a System
	// V segment (shmat): only the kernel knows how large it is.
	Mmap
	// Munmap removes the mapping of Size bytes at Addr, outside the allocator:
	// wholly, partly, or several. With FlagBrk the program break has shrunk to
	// Addr. Size is 0 for a System V segment (shmdt).
	Munmap
	// Fault is a user page fault at Addr; see FaultMajor, PrevFaultMajor and FaultTouch.
	Fault
	// Fork: PID made the process Child (with FlagSharedVM where both use one
	// address space: vfork, clone with CLONE_VM).
	Fork
	// Exec: PID replaced its program; all of its blocks are gone. Child is the
	// thread that called exec, by the ID it had before it became the leader.
	Exec
	// Exit: the last thread of PID has exited. Size is the wait status.
	Exit
	// PoolBegin is a new pool at Addr, below the pool Old (0: below none). Size
	// is the address of its name in the process's memory, 0 where it has none
	// yet. Where it has no name, Stack is that of the call that made it.
	PoolBegin
	// PoolChange says what becomes of the pool at Addr: see Change. Size is the
	// other pool of PoolMoved and the address of the name of PoolNamed. Time is
	// taken before it is done, so it precedes every event that reuses an address.
	PoolChange
	// Mremap moved the mapping at Old (or resized it in place) to Addr with Size.
	// Its size before was OldUnits units of 4 KiB. Began is the time of entry, as
	// of Realloc.
	Mremap
)

// Change says what a PoolChange does.
type Change uint32

const (
	PoolClearedAlone    Change = 1 + iota // its blocks end
	PoolCleared                           // its blocks and the pools below it end
	PoolEnded                             // those end, and the pool itself
	PoolChildrenCleared                   // the blocks of all pools below it end
	PoolChildrenEnded                     // the pools below it end
	PoolMoved                             // it is below another pool from now on; 0: below none
	PoolNamed                             // it has a name

	// ChainFreed is never an event: the kernel half follows the chain of blocks
	// and makes a Free of each.
	ChainFreed
)

// Flags qualify an event.
type Flags uint8

const (
	// FaultMajor marks a Fault that is known to have needed I/O.
	FaultMajor Flags = 1 << iota
	// PrevFaultMajor marks a Fault whose thread's preceding Fault turned out
	// to have been major. Fault sources that fire before a fault is handled
	// can only say so afterwards; a thread's last fault then stays counted
	// as minor.
	PrevFaultMajor
	// FlagSharedVM marks a Fork whose child shares the parent's memory.
	FlagSharedVM

	// FaultTouch marks a Fault that has the Stack of whoever touched the page. The next three are for
	// such faults alone.
	FaultTouch Flags = 1 << 3
	// FaultWrite marks one that was to write.
	FaultWrite Flags = 1 << 4
	// FaultMapped marks one on a page that was there, and is to be copied or to become writable.
	// Sources that fire when a fault is handled do not tell.
	FaultMapped Flags = 1 << 5
	// FaultKernel marks one by the kernel, on behalf of the thread: it is no user page fault.
	FaultKernel Flags = 1 << 6

	// FlagPooled marks an Alloc from a pool: Old is the pool's address, 0 if
	// it could not be read.
	FlagPooled Flags = 2
	// FlagNested marks a Free within the call of a function that releases a
	// block (probe.Release) or ends a pool: part of that, unless the block is known.
	FlagNested Flags = 64
	// FlagReleased marks a Free or Realloc of a block that the tracer knew to be
	// in the sample, and of which it need not be told that it ended.
	FlagReleased Flags = 1 << 3
	// FlagTemporary marks a Free or Realloc that ends the block which its
	// thread allocated last; only where blocks are sampled.
	FlagTemporary Flags = 1 << 4
	// FlagBrk marks a Mmap or Munmap that is a move of the program break.
	FlagBrk Flags = 1 << 5
	// FlagOldOnly marks a Realloc whose new block is not in the sample: Addr
	// is 0, though the call may have returned memory.
	FlagOldOnly Flags = 1 << 7
)

// StackID identifies a call stack within a process image: a 64-bit hash of its frames.
// Zero means that no stack was taken.
type StackID uint64

// Event is one event of a traced process. The zero value of a field means
// that it does not apply to the Kind.
type Event struct {
	Time  uint64 // ns, CLOCK_MONOTONIC
	Addr  uint64
	Size  uint64 // bytes, as requested by the caller
	Old   uint64 // Realloc, ReallocFailed: the block given to realloc; Mremap: the mapping; see FlagPooled and PoolBegin
	Began uint64 // Realloc, Mremap: ns, time of entry
	Stack StackID
	PID   uint32 // thread group ID; of a Fork, the parent's
	TID   uint32
	Child uint32 // Fork, Exec; else see Interval, Change and OldUnits
	CPU   uint16
	Kind  Kind
	Flags Flags
}

// Interval is the mean number of bytes between the sample's hits when the call
// was made: a block of s bytes is in the sample with probability 1 -
// exp(-s / Interval), and so a free of an unknown block tells nothing. 0: every block is.
func (e *Event) Interval() uint32 {
	switch e.Kind {
	case Fork, Exec, PoolChange, Mremap:
		return 0
	}
	return e.Child
}

// Pool is the pool that an Alloc is from, 0 if none or not known.
func (e *Event) Pool() uint64 {
	if e.Kind == Alloc && e.Flags&FlagPooled != 0 {
		return e.Old
	}
	return 0
}

// Change is what a PoolChange does.
func (e *Event) Change() Change { return Change(e.Child) }

// OldUnits is the size in units of 4 KiB that a Mremap's mapping had. known is
// false where that is 16 TiB or more, which is not told.
func (e *Event) OldUnits() (units uint32, known bool) {
	return e.Child, e.Child != 1<<32-1
}

// Stack is a call stack, sent once before the first event that names it.
type Stack struct {
	ID        StackID
	Time      uint64 // ns, CLOCK_MONOTONIC: when it was taken
	PID       uint32
	Truncated bool // deeper than the limit, or the walk broke off
	Deeper    bool // of those: deeper than the limit
	FPGuess   bool // a frame without call frame information was left by its frame pointer
	Bottom    bool // ends in the outermost frame of its thread

	// Frames are return addresses, innermost (the allocator's caller) first, and Python frames (IsPython) between them.
	// Where a signal struck it is the address of the instruction plus one: so
	// each, less one, lies in the code that the frame is in.
	Frames []uint64
}
