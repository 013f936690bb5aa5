package analyzer

import "github.com/memtrace/memtrace/tracer/event"

// maxRegions bounds the regions of all processes together, at 32 bytes each.
// The kernel's own limit, vm.max_map_count, is 65,530 of one process, or
// 1,048,576 where a distribution has raised it.
const maxRegions = 1 << 20

// maxRegionSites bounds the call sites that map memory; a process's later ones
// are counted together.
const maxRegionSites = 1 << 16

// regionSiteID numbers the call sites that map memory, of all processes. They
// are no sites of blocks: a block's bytes may lie in a mapping, and would count twice.
type regionSiteID uint32

// A regionSite is a call site that maps memory: all regions of one process
// image with one stack.
//
// At all times inherited + mappedBytes == unmappedBytes + liveBytes.
type regionSite struct {
	liveBytes     uint64
	liveCount     uint64 // pieces
	mappedBytes   uint64
	mappedCount   uint64 // calls
	unmappedBytes uint64
	inherited     uint64 // bytes that a forked process began with
	peakBytes     uint64
	reported      uint64 // liveBytes at the last Instant
	grown         int64  // until then, since the one before
	memory        regionMemory
	stack         event.StackID
	proc          *process
	image         *image
	other         bool // stands for all sites beyond maxRegionSites
}

// regionSites is what the regions of all processes have in common.
type regionSites struct {
	all       []regionSite
	room      int    // for regions
	untracked uint64 // mappings that there was no room for
	beyond    uint64 // mappings that are counted under a site that stands for others
}

// A regionTable is the regions of one process.
type regionTable struct {
	regionMap
	sites    *regionSites
	other    regionSiteID
	hasOther bool
}

// regionsOf returns the regions of a process that is listed itself.
func (a *Analyzer) regionsOf(p *process) *regionTable {
	if p.regions == nil && p.group == nil && p.groupEntry == nil && !p.exited {
		p.regions = &regionTable{regionMap: regionMap{room: &a.regions.room}, sites: &a.regions}
	}
	return p.regions
}

// mapped applies a Mmap.
func (a *Analyzer) mapped(p *process, e *event.Event) {
	a.events.Mmap++
	t := a.regionsOf(p)
	if t == nil {
		return
	}
	r := region{start: e.Addr, end: e.Addr + e.Size, time: a.since(e.Time)}
	switch {
	case e.Flags&event.FlagBrk != 0:
	case e.Size == 0:
		r.end, r.flags = r.start+a.config.PageSize, regionSysV|regionUnsized
	default:
		r.end = a.pageUp(r.end)
	}
	a.place(p, t, r, e.Stack)
}

// unmapped applies a Munmap. Frees shrink the program break, too, and are not
// told from the program: so that counts only where it concerns a region.
func (a *Analyzer) unmapped(p *process, e *event.Event) {
	t := p.regions
	lo, hi := e.Addr, e.Addr+e.Size
	if e.Flags&event.FlagBrk != 0 {
		if t != nil && t.unmap(lo, hi, maxTime) > 0 {
			a.events.Munmap++
		}
		return
	}
	a.events.Munmap++
	switch {
	case t == nil:
	case e.Size != 0:
		t.unmap(lo, a.pageUp(hi), maxTime)
	default:
		if r := t.at(lo); r != nil && r.flags&regionSysV != 0 && r.start == lo {
			t.unmap(lo, r.end, maxTime)
		}
	}
}

// remapped applies a Mremap. What is mapped now at the old address is another
// mapping where it is younger than the call.
func (a *Analyzer) remapped(p *process, e *event.Event) {
	a.events.Mremap++
	t := a.regionsOf(p)
	if t == nil {
		return
	}
	units, known := e.OldUnits()
	end := e.Old + uint64(units)<<12
	if !known {
		if r := t.at(e.Old); r != nil {
			end = max(end, r.end)
		}
	}
	t.unmap(e.Old, a.pageUp(end), a.since(e.Began))
	a.place(p, t, region{start: e.Addr, end: a.pageUp(e.Addr + e.Size), time: a.since(e.Time)}, e.Stack)
}

// place makes a region, over whatever was there.
func (a *Analyzer) place(p *process, t *regionTable, r region, stack event.StackID) {
	if r.end <= r.start || r.end > maxAddress {
		return // no kernel maps that
	}
	t.unmap(r.start, r.end, maxTime)
	r.site = a.regionSiteOf(p, t, stack)
	s := &t.sites.all[r.site]
	s.mappedCount++
	if !t.add(r) {
		t.sites.untracked++
		return
	}
	s.mappedBytes += r.bytes()
	s.hold(r)
}

// maxAddress is above all addresses of user space.
const maxAddress = 1 << 63

// pageUp rounds an address up to a page's beginning.
func (a *Analyzer) pageUp(addr uint64) uint64 {
	return (addr + a.config.PageSize - 1) &^ (a.config.PageSize - 1)
}

// hold counts a region that has come.
func (s *regionSite) hold(r region) {
	s.liveCount++
	s.liveBytes += r.bytes()
	s.peakBytes = max(s.peakBytes, s.liveBytes)
}

// unmap ends what lies between lo and hi of the regions that were made up to
// a time. It returns how many regions that concerns.
func (t *regionTable) unmap(lo, hi, until uint64) int {
	gone, dropped := t.remove(lo, hi, until)
	if dropped {
		t.sites.untracked++
	}
	for _, r := range gone {
		s := &t.sites.all[r.site]
		s.unmappedBytes += r.bytes()
		s.liveBytes -= r.bytes()
		s.liveCount += uint64(r.left)
		s.liveCount--
	}
	return len(gone)
}

// regionSiteOf returns the site of a stack that maps memory.
func (a *Analyzer) regionSiteOf(p *process, t *regionTable, stack event.StackID) regionSiteID {
	if id, ok := p.image.regions[stack]; ok {
		return id
	}
	if len(t.sites.all) < maxRegionSites {
		id := t.sites.add(regionSite{stack: stack, proc: p, image: p.image})
		if p.image.regions == nil {
			p.image.regions = make(map[event.StackID]regionSiteID)
		}
		p.image.regions[stack] = id
		return id
	}
	t.sites.beyond++
	if !t.hasOther {
		t.other, t.hasOther = t.sites.add(regionSite{proc: p, image: p.image, other: true}), true
	}
	return t.other
}

func (t *regionSites) add(s regionSite) regionSiteID {
	t.all = append(t.all, s)
	return regionSiteID(len(t.all) - 1)
}

// inheritRegions has a forked process begin with its parent's regions, as far
// as there is room.
func (a *Analyzer) inheritRegions(p, from *process) {
	if from.regions == nil {
		return
	}
	t := a.regionsOf(p)
	if t == nil {
		return
	}
	own := make(map[regionSiteID]regionSiteID)
	for r := range from.regions.all {
		id, ok := own[r.site]
		if !ok {
			id = a.regionSiteOf(p, t, a.regions.all[r.site].stack)
			own[r.site] = id
		}
		copied := *r
		copied.site = id
		copied.flags |= regionInherited
		if !t.add(copied) {
			a.regions.untracked++
			continue
		}
		s := &a.regions.all[id]
		s.inherited += copied.bytes()
		s.hold(copied)
	}
}

// dropRegions forgets the regions of a process: its memory is another now, or
// it is not seen what becomes of them.
func (a *Analyzer) dropRegions(p *process) {
	if p.regions == nil {
		return
	}
	p.regions.unmap(0, maxAddress, maxTime)
	p.regions.clear()
	p.regions = nil
}

// dropInherited subtracts the regions that the parent made from the sums.
func (t *regionTable) dropInherited() {
	for r := range t.all {
		if r.flags&regionInherited == 0 {
			continue
		}
		s := &t.sites.all[r.site]
		s.unmappedBytes += r.bytes()
		s.liveBytes -= r.bytes()
		s.liveCount--
	}
}

// endRegions drops the regions of a process that has ended. What it had
// to its end stays in the sums, but for what it had from its parent.
func (a *Analyzer) endRegions(p *process) {
	if p.regions == nil {
		return
	}
	p.regions.dropInherited()
	p.regions.clear()
	p.regions = nil
}
