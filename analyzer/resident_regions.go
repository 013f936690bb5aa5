package analyzer

import "github.com/memtrace/memtrace/analyzer/input"

// regionKind is a set of what the kernel says that mappings are.
type regionKind uint16

const (
	kindAnon regionKind = 1 << iota
	kindBrk
	kindFile
	kindDevice
	kindMemfd
	kindShm
	kindShmem
	kindHugetlb
	kindStack
	kindOther
)

var regionKindNames = []string{"anon", "brk", "file", "device", "memfd", "shm", "shmem", "hugetlb", "stack", "other"}

// String returns the kind's word: "unknown" where no mapping has been looked
// at yet, "mixed" where there are several kinds.
func (k regionKind) String() string {
	if k == 0 {
		return "unknown"
	}
	for i, name := range regionKindNames {
		if k == 1<<i {
			return name
		}
	}
	return "mixed"
}

// regionMemory is what the last reading found of a site's regions, in bytes.
type regionMemory struct {
	resident, swapped uint64
	held              uint64 // of them: in regions that hold blocks of an allocator
	kinds             regionKind
}

// applyMappings compares the regions with what the kernel has mapped. It sets the sizes
// of System V segments, and drops what is no longer mapped although no event said so. A
// mapping that changes while smaps is read may be missing from it, so that
// only what is missing twice in a row is dropped.
func (t *regionTable) applyMappings(mappings []input.Range) {
	if t == nil {
		return
	}
	var gone []addrRange
	for r := range t.all {
		for len(mappings) > 0 && mappings[0].End <= r.start {
			mappings = mappings[1:]
		}
		if r.flags&regionUnsized != 0 && len(mappings) > 0 && mappings[0].Start == r.start {
			t.size(r, mappings[0].End)
		}
		gaps := gapsOf(r, mappings)
		switch {
		case len(gaps) == 0:
			r.flags &^= regionMissing
		case r.flags&regionMissing == 0:
			r.flags |= regionMissing
		default:
			gone = append(gone, gaps...)
		}
	}
	for _, g := range gone {
		t.unmap(g.start, g.end, maxTime)
	}
}

// size notes how large a System V segment is. Where another region lies in
// its way, that is none of the kernel's any more; it goes at the next readings.
func (t *regionTable) size(r *region, end uint64) {
	if next := t.after(r.end); next != nil {
		end = min(end, next.start)
	}
	r.end = max(end, r.end)
	r.flags &^= regionUnsized
	s := &t.sites.all[r.site]
	if r.flags&regionInherited != 0 {
		s.inherited += r.bytes()
	} else {
		s.mappedBytes += r.bytes()
	}
	s.liveBytes += r.bytes()
	s.peakBytes = max(s.peakBytes, s.liveBytes)
}

// after returns the first region that ends above addr, nil where there is none.
func (m *regionMap) after(addr uint64) *region {
	c, i := m.seek(addr)
	if c == len(m.chunks) {
		return nil
	}
	return &m.chunks[c][i]
}

// gapsOf returns the parts of a region that lie in none of the mappings,
// which begin with the first that ends above its start.
func gapsOf(r *region, mappings []input.Range) (gaps []addrRange) {
	at := r.start
	for i := range mappings {
		m := &mappings[i]
		if m.Start >= r.end {
			break
		}
		if m.Start > at {
			gaps = append(gaps, addrRange{at, m.Start})
		}
		at = m.End
	}
	if at < r.end {
		gaps = append(gaps, addrRange{at, r.end})
	}
	return gaps
}

// eachSite calls do for all sites of a process's present image.
func (t *regionTable) eachSite(p *process, do func(*regionSite)) {
	for _, id := range p.image.regions {
		do(&t.sites.all[id])
	}
	if t.hasOther {
		do(&t.sites.all[t.other])
	}
}

// forgetMemory makes room for a new reading. A site that has no region any
// more stays of the kind that it was.
func (s *regionSite) forgetMemory() {
	kinds := s.memory.kinds
	s.memory = regionMemory{}
	if s.liveCount == 0 {
		s.memory.kinds = kinds
	}
}

// placeRegions notes what of a process's regions is in memory, and which hold blocks.
func (p *process) placeRegions(m *input.Memory) {
	t := p.regions
	if t == nil {
		return
	}
	t.eachSite(p, (*regionSite).forgetMemory)
	for _, f := range m.Regions {
		if uint64(f.Site) >= uint64(len(t.sites.all)) {
			continue
		}
		if s := &t.sites.all[f.Site]; s.image == p.image {
			s.memory = regionMemory{resident: f.Resident, swapped: f.Swapped, held: f.Held, kinds: regionKind(f.Kinds)}
		}
	}
	for _, held := range m.Held {
		for at := held.Start; at < held.End; {
			r := t.at(at)
			if r == nil {
				break
			}
			r.flags |= regionHeld
			at = r.end
		}
	}
}
