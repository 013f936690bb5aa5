package report

// Region is a call site that maps memory outside of the allocator: all
// mappings of one process with one stack. Its numbers have nothing to do with
// those of sites of blocks.
type Region struct {
	ID            int      `json:"id"`
	Process       int      `json:"process"` // Process.ID
	PID           int      `json:"pid"`
	Function      string   `json:"function"` // the caller of mmap or the like
	Stack         []*Frame `json:"stack"`    // innermost first, inlined frames included
	Truncated     bool     `json:"truncated"`
	FramePointers bool     `json:"frame_pointers"` // see Site
	// Kind is what the kernel says that the mappings are: anon, file, device, memfd,
	// shm (System V), shmem (other shared memory), hugetlb, brk, stack, other; mixed
	// where they differ, unknown where none has been looked at while it was there.
	Kind string `json:"kind"`
	// Allocator says that an allocator hands the memory out: most of what is
	// resident belongs to mappings that hold traced blocks, which RSSBy has as heap,
	// or the stack leads through malloc or the like.
	Allocator      bool   `json:"allocator"`
	LiveBytes      uint64 `json:"live_bytes"` // mapped now, resident or not
	LiveCount      uint64 `json:"live_count"` // in so many pieces
	MappedBytes    uint64 `json:"mapped_bytes"`
	MappedCount    uint64 `json:"mapped_count"`    // calls
	UnmappedBytes  uint64 `json:"unmapped_bytes"`  // moved and mapped over, too
	InheritedBytes uint64 `json:"inherited_bytes"` // mapped by the parent, before the fork
	PeakLiveBytes  uint64 `json:"peak_live_bytes"`
	ResidentBytes  uint64 `json:"resident_bytes"`
	SwappedBytes   uint64 `json:"swapped_bytes"`
	GrowthBytes    int64  `json:"growth_bytes"` // live bytes now less those of the preceding Report, if there was one
}

// AnonMmap divides RSSBy.AnonMmap; its fields add up to that.
type AnonMmap struct {
	Traced   uint64 `json:"traced"`   // in mappings whose making was seen: Report.Regions has the stacks
	Untraced uint64 `json:"untraced"` // in those from before the attach, or made unseen
}

// Mapping is the mappings of a process with one name and the same permissions.
type Mapping struct {
	Name          string `json:"name"`  // path, or what the kernel calls it; [anon] for nameless memory
	Perms         string `json:"perms"` // such as rw-p
	Count         uint64 `json:"count"`
	Bytes         uint64 `json:"bytes"`
	ResidentBytes uint64 `json:"resident_bytes"`
	SwappedBytes  uint64 `json:"swapped_bytes"`
	// GrowthBytes are the resident bytes less those at the attach, MappedGrowthBytes
	// the same of Bytes.
	GrowthBytes       int64 `json:"growth_bytes"`
	MappedGrowthBytes int64 `json:"mapped_growth_bytes"`
}
