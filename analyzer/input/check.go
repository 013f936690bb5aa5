package input

// LeakKind says how a block is leaked; numbers as in reach.Kind.
type LeakKind uint8

const (
	Possible LeakKind = 1 + iota
	Indirect
	Definite
)

// Verdicts are what a leak check of a process has found: the blocks that all of its scans call leaked. They
// come once all events until the end of the last scan have been given: a block that was freed meanwhile, or
// is a new one at the same place, is no leak. Each replaces the one before on the same program.
type Verdicts struct {
	PID                  uint32
	When                 string // analyzer.CheckTime
	Scans                int
	Began                uint64 // ns, CLOCK_MONOTONIC: of the first scan; younger blocks are not judged
	ApartNS              uint64 // from the first scan's beginning to the last one's
	Still                bool   // the process stood still
	Registers            bool   // were read
	TookNS               uint64 // the last scan
	PausedNS             uint64 // for which the process stood still
	LongestHoldNS        uint64 // of its memory map's lock, in all scans, at most
	ReadBytes            uint64 // by all scans
	Roots, Own, Unsure   uint64 // bytes, of the last scan: see reach.Result
	Unread, SwappedBytes uint64 // likewise
	Reachable            Sum
	ReachableBy          [8]Sum // by reach.RootKind
	Leaks                []Leaked
}

// Sum counts blocks.
type Sum struct{ Count, Bytes uint64 }

// A Leaked is a block that is leaked. Leaked ones are in the order of their addresses.
type Leaked struct {
	Addr, Size uint64
	Site       uint32 // as the analyzer numbers it
	Kind       LeakKind
}

// Paused corrects for how long the process of the last Verdicts stood still.
type Paused struct {
	PID      uint32
	PausedNS uint64
}

// Repair says which of a process's blocks that were in doubt have been freed unseen, by the allocator's own
// records. It comes once all events until the end of the last look have been given: what was freed
// meanwhile was seen. Blocks from before Began that it does not name are in doubt no more.
type Repair struct {
	PID    uint32
	Began  uint64  // ns, CLOCK_MONOTONIC
	Freed  []Block // to be taken out of what lives
	Unsure []Block // of which it could not be told
}

// FreeWalk says which blocks of a process, whose frees are not seen, are free by the allocator's own records
// (ProcessInfo.FreesUnseen). It comes once all events until the end of the last look have been given. A block
// that was handed out again after Began is another one, and none that it names. Blocks from before Began that
// it does not name live as of then. Where there are very many, several come in turn, all but the last with More.
type FreeWalk struct {
	PID    uint32
	Began  uint64   // ns, CLOCK_MONOTONIC
	TookNS uint64   // of a processor's time
	Still  bool     // nothing ran meanwhile: the figures are those of one instant
	Freed  []uint64 // addresses, ascending, each as the distance from the one before
	Unsure []uint64 // likewise: of which it could not be told
	More   bool     // others belong to the same look
	Held   bool     // it was before the Checkpoint that it belongs to, which has counted it
}

// maxWalked bounds how many addresses are in one FreeWalk.
const maxWalked = 1 << 19

// FreeWalks makes the FreeWalks of one look from addresses, which ascend. The rest of each is that of like.
func FreeWalks(like FreeWalk, freed, unsure []uint64) (out []FreeWalk) {
	for {
		like.Freed, freed = steps(freed)
		like.Unsure, unsure = steps(unsure)
		like.More = len(freed)+len(unsure) > 0
		out = append(out, like)
		if !like.More {
			return out
		}
	}
}

// steps turns the first addresses into distances and returns the others.
func steps(addrs []uint64) (steps, rest []uint64) {
	n := min(len(addrs), maxWalked)
	steps = make([]uint64, n)
	var last uint64
	for i, addr := range addrs[:n] {
		steps[i], last = addr-last, addr
	}
	return steps, addrs[n:]
}

// A Block is a live block, as it was when the question was asked.
type Block struct {
	Addr, Size  uint64
	AllocatedAt uint64 // ns, CLOCK_MONOTONIC
}

func (Verdicts) input() {}
func (Paused) input()   {}
func (Repair) input()   {}
func (FreeWalk) input() {}
