package input

// Mapped is what a process has mapped, by the kernel. It comes before the Memory of the same reading, and only
// for a process that has regions: those that the kernel does not list twice in a row are gone.
type Mapped struct {
	PID    uint32
	Ranges []Range // ascending, without overlaps
}

// A Range is the addresses from Start up to, not including, End.
type Range struct{ Start, End uint64 }

// Memory is where a process's memory was at one instant, as nearly as the kernel can tell, split among the
// live blocks and regions that were known then. It comes before any further events.
type Memory struct {
	PID            uint32
	Now            uint64 // ns, CLOCK_MONOTONIC
	FromStart      bool   // every block was seen: there is no memory from before the attach
	Usage          Usage
	RSSBy          RSSBy  // adds up to Usage.RSS
	Traced         uint64 // of RSSBy.AnonMmap: what the program was seen to map
	Blocks         Residence
	StacksNotFound int    // threads whose stacks are in RSSBy.AnonMmap
	Unmeasured     uint64 // bytes that are resident and hold live blocks, but whose page states are not known

	Sites    []SiteResidence   // of blocks, by number; those that are left out have nothing anywhere
	Leaks    []Residence       // of the process's verdicts, in their order; Sites has them in, too
	Regions  []RegionResidence // by number
	Held     []Range           // that belong to an allocator: the regions there hold blocks
	Mappings []Mapping         // by name, of a process none of whose allocations is seen; else nil
	Runtime  *Runtime          // nil: it has no language's runtime that is known
}

// Usage is the kernel's view of a process's memory, in bytes.
type Usage struct {
	RSS, PSS, USS, Swap, Anon, File, Shmem uint64
}

// RSSBy divides the resident set: see report.RSSBy.
type RSSBy struct {
	HeapLive, HeapOverhead, HeapBeforeAttach, AnonMmap, File, Stack, Shmem, Other uint64
}

// Residence says where bytes of live blocks are. The four add up to their size.
type Residence struct {
	Resident  uint64
	Untouched uint64 // never written, or given back to the kernel by the allocator
	Swapped   uint64
	Unknown   uint64 // in no mapping that could be looked at; younger than the reading
}

// A SiteResidence is the residence of a call site's blocks.
type SiteResidence struct {
	Site uint32 // as the analyzer numbers it
	Residence
}

// A RegionResidence is that of what a call site has mapped.
type RegionResidence struct {
	Site              uint32 // as the analyzer numbers it
	Resident, Swapped uint64
	Held              uint64 // of them: in regions that hold blocks of an allocator
	Kinds             uint16 // a set: what the kernel says that the mappings are
}

// A Mapping is the mappings of a process with one name and the same permissions, at this reading and at the first.
type Mapping struct {
	Name                           string // "" for nameless memory
	Perms                          string // such as rw-p
	Count, Bytes                   uint64
	Resident, Swapped              uint64
	FirstBytes, FirstResidentBytes uint64
}

// Runtime is what a language's runtime uses memory for.
type Runtime struct {
	Name    string // java, v8
	Version string // as it says itself
	Problem string // why there are no parts, or not all
	Parts   []RuntimePart
}

// A RuntimePart is what a runtime uses for one thing, in bytes. Resident is in RSSBy.AnonMmap.
type RuntimePart struct {
	Name                      string
	Mapped, Resident, Swapped uint64
}

func (Mapped) input() {}
func (Memory) input() {}
