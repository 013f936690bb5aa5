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

// A Block is a live block, as it was when the question was asked.
type Block struct {
	Addr, Size  uint64
	AllocatedAt uint64 // ns, CLOCK_MONOTONIC
}

func (Verdicts) input() {}
func (Paused) input()   {}
func (Repair) input()   {}
