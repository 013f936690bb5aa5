package analyzer

import (
	"cmp"
	"slices"

	"github.com/memtrace/memtrace/analyzer/report"
)

// reportRegions lists the call sites that map memory, those with most
// resident bytes first, and the number of those left out.
func (a *Analyzer) reportRegions(top int) ([]report.Region, int) {
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
	out := make([]report.Region, 0, len(order))
	for _, id := range order {
		out = append(out, a.regions.all[id].report(id))
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
func (s *regionSite) report(id regionSiteID) report.Region {
	out := report.Region{
		ID: int(id), Process: s.proc.id, PID: int(s.proc.info.PID), Kind: s.memory.kinds.String(),
		LiveBytes: s.liveBytes, LiveCount: s.liveCount,
		MappedBytes: s.mappedBytes, MappedCount: s.mappedCount, UnmappedBytes: s.unmappedBytes,
		InheritedBytes: s.inherited, PeakLiveBytes: s.peakBytes, ResidentBytes: s.resident(),
		GrowthBytes: s.grown,
	}
	if s.liveCount > 0 {
		out.SwappedBytes = s.memory.swapped
		out.Allocator = s.memory.held > s.memory.resident/2
	}
	return out
}

// nameRegion fills in what a site is called: its stack and function.
func (a *Analyzer) nameRegion(out *report.Region) {
	s := &a.regions.all[out.ID]
	n := a.nameStack(s.image, s.stack, s.other)
	out.Function, out.Stack, out.Truncated, out.FramePointers = n.function, n.frames, n.truncated, n.guessed
	out.Allocator = out.Allocator || slices.ContainsFunc(n.frames, func(f *report.Frame) bool { return report.IsAllocator(f.Function) })
}
