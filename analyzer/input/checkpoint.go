package input

import "github.com/memtrace/memtrace/tracer/event"

// Checkpoint begins a stream that has nothing from before At: the processes that lived then follow, with all that
// lived in them. What is counted over time (allocations, frees, lifetimes, peaks) is counted from At on.
type Checkpoint struct {
	At uint64 // ns, CLOCK_MONOTONIC
}

// Carried is what a process was at the Checkpoint beside its description. It comes right after its Started.
type Carried struct {
	PID      uint32
	Execs    int    // how often it had replaced its program
	Child    bool   // it was forked from a traced process
	ForkedAt uint64 // ns, CLOCK_MONOTONIC: when; 0: it was not, or before the trace began
	Copies   uint64 // blocks that it had of its parent's
	Partial  bool   // it has not got all copies of these

	// FreesSeenAt is when free got its probe (ns, CLOCK_MONOTONIC); 0: it had it from the beginning, or has none
	// (ProcessInfo.FreesUnseen).
	FreesSeenAt uint64
	FreeWalks   uint64 // looks so far for blocks that were freed unseen
}

// Held is what lived in processes at the Checkpoint, each as the event that made it, of its own time. Only these
// kinds count, the others are ignored:
//
//   - Alloc: a live block, from its pool if it is in one. TID is not known. With event.FlagOldOnly its site is the one
//     that stands for all others.
//   - Mmap: a region. Size is exact, Flags are a set of HeldSysV, HeldUnsized, HeldCopy.
//   - PoolBegin: a pool, parents first.
//   - Fork with event.FlagSharedVM: a child that uses its parent's memory.
//
// The array and the Held itself are lent, as Events are.
type Held struct{ Events []event.Event }

// Flags of a Mmap that is Held.
const (
	HeldSysV    event.Flags = 1 << iota // a System V segment: it ends as a whole
	HeldUnsized                         // how large that is was not known yet
	HeldCopy                            // the parent mapped it, before the fork
)

func (Checkpoint) input() {}
func (Carried) input()    {}
func (*Held) input()      {}
