//go:build linux && !viewer

package analyzer

import (
	"bytes"
	"maps"
	"slices"

	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/procfs"
)

// kindOfMapping says what a mapping is by its line in smaps.
func kindOfMapping(v *procfs.VMA) regionKind {
	switch {
	case v.Flags&procfs.FlagHugetlb != 0:
		return kindHugetlb
	case bytes.HasPrefix(v.Path, []byte("/memfd:")):
		return kindMemfd
	case bytes.HasPrefix(v.Path, []byte("/SYSV")) && v.Kind == procfs.KindShmem:
		return kindShm
	}
	switch v.Kind {
	case procfs.KindAnon:
		return kindAnon
	case procfs.KindHeap:
		return kindBrk
	case procfs.KindStack:
		return kindStack
	case procfs.KindShmem:
		return kindShmem
	case procfs.KindHugetlb:
		return kindHugetlb
	case procfs.KindFile:
		if bytes.HasPrefix(v.Path, []byte("/dev/")) {
			return kindDevice
		}
		return kindFile
	}
	return kindOther
}

// measureRegions adds up what is resident of each site's regions. A mapping
// that is one span needs no more than smaps says; of others the states of
// their pages have been read.
func (l *layout) measureRegions(pages *pageStates) {
	if l.regions == nil {
		return
	}
	if l.found == nil {
		l.found = make(map[regionSiteID]*regionMemory)
	}
	clear(l.found)
	for i := range l.mappings {
		m := &l.mappings[i]
		if m.regions {
			l.measureMapping(m, pages)
		}
	}
}

func (l *layout) measureMapping(m *mapping, pages *pageStates) {
	left := m.rss + m.hugetlb // pages that came since smaps was read don't count
	spans := l.spans[m.firstSpan : m.firstSpan+m.spans]
	for i := range spans {
		s := &spans[i]
		resident, swapped := m.rss+m.hugetlb, m.swap
		if m.spans > 1 {
			resident, swapped = pages.count(m, l.starts[m.firstSpan+i], s.end)
		}
		resident = min(resident, left)
		left -= resident
		if !s.region {
			continue
		}
		to := l.found[s.site]
		if to == nil {
			to = new(regionMemory)
			l.found[s.site] = to
		}
		to.resident += resident
		to.swapped += swapped
		if s.isHeld() {
			to.held += resident
		}
		to.kinds |= m.kind
		if m.class == classStack {
			to.kinds = to.kinds&^m.kind | kindStack
		}
	}
}

// regionResidence is what measureRegions has found, by number.
func (l *layout) regionResidence() (out []input.RegionResidence) {
	if l.regions == nil {
		return nil
	}
	for _, id := range slices.Sorted(maps.Keys(l.found)) {
		m := l.found[id]
		out = append(out, input.RegionResidence{Site: uint32(id), Resident: m.resident, Swapped: m.swapped, Held: m.held, Kinds: uint16(m.kinds)})
	}
	return out
}

// heldRegions are the spans of regions in which blocks were found for the first time: they belong to
// an allocator, from then on.
func (l *layout) heldRegions() (out []input.Range) {
	for i := range l.spans {
		if s := &l.spans[i]; s.region && s.blocks && !s.held {
			out = append(out, input.Range{Start: l.starts[i], End: s.end})
		}
	}
	return out
}
