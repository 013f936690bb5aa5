package analyzer

import (
	"cmp"
	"slices"
)

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

// reportRegions lists the call sites that map memory, those with most
// resident bytes first, and the number of those left out.
func (a *Analyzer) reportRegions(top int, symb Symbolizer) ([]Region, int) {
	order := make([]regionSiteID, 0, len(a.regions.all))
	for id := range a.regions.all {
		if s := &a.regions.all[id]; s.mappedCount > 0 || s.liveCount > 0 {
			order = append(order, regionSiteID(id))
		}
	}
	slices.SortFunc(order, func(i, j regionSiteID) int {
		x, y := &a.regions.all[i], &a.regions.all[j]
		return cmp.Or(cmp.Compare(y.resident(), x.resident()), cmp.Compare(y.liveBytes, x.liveBytes),
			cmp.Compare(y.mappedBytes, x.mappedBytes), cmp.Compare(i, j))
	})
	omitted := 0
	if top > 0 && len(order) > top {
		omitted, order = len(order)-top, order[:top]
	}
	out := make([]Region, 0, len(order))
	for _, id := range order {
		out = append(out, a.regions.all[id].report(id))
		a.nameRegion(&out[len(out)-1], symb)
	}
	for i := range a.regions.all {
		a.regions.all[i].reported = a.regions.all[i].liveBytes
	}
	return out, omitted
}

// resident is how much of the site's regions was in memory at the last reading.
func (s *regionSite) resident() uint64 {
	if s.liveCount == 0 {
		return 0
	}
	return s.memory.resident
}

// report gives a site's figures; nameRegion adds its stack.
func (s *regionSite) report(id regionSiteID) Region {
	out := Region{
		ID: int(id), Process: s.proc.id, PID: int(s.proc.info.PID), Kind: s.memory.kinds.String(),
		LiveBytes: s.liveBytes, LiveCount: s.liveCount,
		MappedBytes: s.mappedBytes, MappedCount: s.mappedCount, UnmappedBytes: s.unmappedBytes,
		InheritedBytes: s.inherited, PeakLiveBytes: s.peakBytes, ResidentBytes: s.resident(),
		GrowthBytes: int64(s.liveBytes) - int64(s.reported),
	}
	if s.liveCount > 0 {
		out.SwappedBytes = s.memory.swapped
		out.Allocator = s.memory.held > s.memory.resident/2
	}
	return out
}

// nameRegion fills in what a site is called: its stack and function.
func (a *Analyzer) nameRegion(out *Region, symb Symbolizer) {
	s := &a.regions.all[out.ID]
	n := a.nameStack(out.PID, s.image, s.stack, s.other, symb)
	out.Function, out.Stack, out.Truncated, out.FramePointers = n.function, n.frames, n.truncated, n.guessed
	out.Allocator = out.Allocator || slices.ContainsFunc(n.frames, func(f *Frame) bool { return isAllocator(f.Function) })
}
