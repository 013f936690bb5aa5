//go:build linux && !viewer

package analyzer

import (
	"slices"

	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/procfs"
)

// class is the part of RSSBy that a mapping belongs to where it is no heap.
type class uint8

const (
	classOther class = iota
	classAnon
	classFile
	classStack
	classShmem
)

// pagesState says what is known of a mapping's pages.
type pagesState uint8

const (
	pagesUnread  pagesState = iota
	pagesNone               // none in memory or swap
	pagesKnown              // in pageStates
	pagesUnknown            // more than is kept
)

// A mapping is what Measure needs of a procfs.VMA.
type mapping struct {
	start, end uint64
	rss, swap  uint64
	anonymous  uint64 // the part of rss that no file backs
	hugetlb    uint64 // preallocated huge pages, which are in no rss
	kind       regionKind
	regions    bool // some of it was seen being mapped
	parts      bool // some of it is a runtime's
	access     bool // it can be read, written or executed
	class      class
	brk        bool // [heap]
	mayBeHeap  bool // anonymous private memory
	wasHeap    bool // held a live block in an earlier Measure
	blocks     bool // holds a live block
	guarded    bool // begins where a mapping ends that may be a stack's guard
	pages      pagesState
	spans      int // number of spans, from firstSpan on
	firstSpan  int
	static     uint64 // where the static data of the file before ends within it; 0: it is that as a whole, or not at all
	around     uint64 // bytes that the kernel may map at one fault
	firstChunk uint64
	table      int
}

// isHeap reports whether an allocator uses the mapping, as far as was seen.
func (m *mapping) isHeap() bool {
	return m.brk || m.mayBeHeap && (m.blocks || m.wasHeap)
}

// A span is a part of a mapping that is wholly from before the attach, or
// wholly from after it, and of which one call site mapped all or none.
type span struct {
	end     uint64
	live    uint64 // resident bytes of live blocks
	mapping int32
	site    regionSiteID // where region is set
	before  bool
	part    uint8 // of a runtime, see runtimeParts; 0: none
	region  bool  // it was seen being mapped, outside of the allocator
	held    bool  // and held blocks earlier, or
	blocks  bool  // holds one now
}

// isHeld reports whether an allocator has taken the memory to hand it out.
func (s *span) isHeld() bool { return s.held || s.blocks }

// isOwn reports whether the program mapped the memory for its own use.
func (s *span) isOwn() bool { return s.region && !s.isHeld() }

// layout is a process's mappings at one instant.
type layout struct {
	mappings []mapping
	spans    []span
	starts   []uint64 // of spans
	heap     []addrRange
	regions  *regionTable                   // nil: none
	mapped   func([]input.Range)            // called with what is mapped before regions are looked at; may be nil
	found    map[regionSiteID]*regionMemory // of regions
	cursor   regionCursor
	sums     *mappingSums // nil unless they are wanted
	runtime  runtimeParts
	sum      procfs.Memory
	file     uint64
	shmem    uint64
	end      uint64 // of the mapping before
	statics  statics
	dataEnd  uint64 // of the file whose private writable part is the mapping before: where its static data ends; 0: not known
	data     bool   // the mapping before is such a part
	guard    bool   // the mapping before may be a stack's guard
}

// load reads the mappings by smaps.
func (l *layout) load(smaps func(func(*procfs.VMA)) error, base *Baseline) error {
	l.mappings, l.spans, l.starts = l.mappings[:0], l.spans[:0], l.starts[:0]
	l.sum, l.file, l.shmem, l.end, l.data, l.guard = procfs.Memory{}, 0, 0, 0, false, false
	if l.sums != nil {
		l.sums.begin()
	}
	if err := smaps(l.add); err != nil {
		return err
	}
	l.recall()
	l.reportMapped()
	l.cut(base)
	return nil
}

// reportMapped passes on what is mapped, so that the regions are compared with it.
func (l *layout) reportMapped() {
	if l.regions == nil || l.mapped == nil {
		return
	}
	ranges := make([]input.Range, len(l.mappings))
	for i := range l.mappings {
		ranges[i] = input.Range{Start: l.mappings[i].start, End: l.mappings[i].end}
	}
	l.mapped(ranges)
}

// add takes one mapping. The kernel's smaps are in ascending order; what
// isn't would break the search and is left out.
func (l *layout) add(v *procfs.VMA) {
	if v.Start < l.end || v.End > 1<<63 {
		return // above: [vsyscall], which has no pages of the process
	}
	m := mapping{
		start: v.Start, end: v.End, rss: v.Rss, swap: v.Swap,
		anonymous: min(v.Anonymous, v.Rss), brk: v.Kind == procfs.KindHeap,
		hugetlb: v.SharedHugetlb + v.PrivateHugetlb, kind: kindOfMapping(v),
		guarded: l.guard && v.Start == l.end, around: aroundOf(v), access: v.Perms&(procfs.Read|procfs.Write|procfs.Exec) != 0,
	}
	l.guard = v.Perms&(procfs.Read|procfs.Write|procfs.Exec) == 0 && v.Size() <= maxGuard
	m.class, m.mayBeHeap = l.classify(v)
	if m.class == classOther && m.mayBeHeap && l.dataEnd > v.Start && l.dataEnd < v.End {
		m.static = l.dataEnd
	}
	if l.sums != nil {
		l.sums.add(v)
	}
	l.sum.Add(&v.Memory)
	switch v.Kind {
	case procfs.KindShmem:
		l.shmem += m.rss - m.anonymous
	default:
		l.file += m.rss - m.anonymous
	}
	l.mappings = append(l.mappings, m)
	l.end = v.End
}

// aroundOf is how many bytes the kernel may map at one fault in a mapping.
func aroundOf(v *procfs.VMA) uint64 {
	switch {
	case v.AnonHuge != 0:
		return hugeAround
	case v.Kind == procfs.KindFile || v.Kind == procfs.KindShmem:
		return fileAround
	}
	return 0
}

// classify says which part of RSSBy a mapping is where no block is found in
// it, and whether blocks would make it heap. Anonymous memory that begins
// where a file's writable private mapping ends is the .bss of that file, as far
// as the file has one.
func (l *layout) classify(v *procfs.VMA) (c class, mayBeHeap bool) {
	private := v.Perms&procfs.Shared == 0
	adjacent := l.data && v.Start == l.end
	l.data = false
	switch v.Kind {
	case procfs.KindStack:
		return classStack, false
	case procfs.KindShmem:
		return classShmem, false
	case procfs.KindFile:
		if l.data = private && v.Perms&procfs.Write != 0; l.data {
			l.dataEnd = l.statics.end(v)
		}
		return classFile, false
	case procfs.KindHeap:
		return classAnon, true
	case procfs.KindAnon:
		switch {
		case !private:
			return classShmem, false
		case adjacent && v.Perms&procfs.Write != 0 && (l.dataEnd == 0 || l.dataEnd > v.Start):
			return classOther, true
		}
		return classAnon, true
	}
	return classOther, false
}

// recall marks the mappings that were heap before. They are known by an
// address range, since a mapping grows, shrinks and splits.
func (l *layout) recall() {
	h := 0
	for i := range l.mappings {
		m := &l.mappings[i]
		for h < len(l.heap) && l.heap[h].end <= m.start {
			h++
		}
		m.wasHeap = h < len(l.heap) && l.heap[h].start < m.end
	}
}

// remember notes which mappings are heap now, for the next recall.
func (l *layout) remember() {
	l.heap = l.heap[:0]
	for i := range l.mappings {
		if m := &l.mappings[i]; m.isHeap() {
			l.heap = append(l.heap, addrRange{m.start, m.end})
		}
	}
}

// cut makes the spans.
func (l *layout) cut(base *Baseline) {
	ranges := base.all()
	l.runtime.next = 0
	l.cursor = regionCursor{}
	if l.regions != nil {
		l.cursor.m = &l.regions.regionMap
	}
	for i := range l.mappings {
		m := &l.mappings[i]
		m.firstSpan = len(l.spans)
		for len(ranges) > 0 && ranges[0].end <= m.start {
			ranges = ranges[1:]
		}
		at := m.start
		for _, b := range ranges {
			if b.start >= m.end {
				break
			}
			if b.start > at {
				l.span(i, at, b.start, false)
			}
			if to := min(b.end, m.end); to > at {
				l.span(i, max(b.start, at), to, true)
				at = to
			}
		}
		if at < m.end {
			l.span(i, at, m.end, false)
		}
		m.spans = len(l.spans) - m.firstSpan
	}
}

func (l *layout) span(mapping int, start, end uint64, before bool) {
	for start < end {
		r, to := l.cursor.piece(start, end)
		m := &l.mappings[mapping]
		part, to := l.runtime.piece(m, start, to)
		s := span{end: to, mapping: int32(mapping), before: before, part: part}
		m.parts = m.parts || part != 0
		if r != nil {
			s.region, s.site, s.before, s.held = true, r.site, false, r.flags&regionHeld != 0
			m.regions = true
		}
		if !l.extend(start, &s) {
			l.spans = append(l.spans, s)
			l.starts = append(l.starts, start)
		}
		start = to
	}
}

// extend has the span before grow by one of the same kind: a loop may have made
// a mapping of thousands of regions.
func (l *layout) extend(start uint64, s *span) bool {
	if len(l.spans) == 0 {
		return false
	}
	last := &l.spans[len(l.spans)-1]
	if last.end != start || last.mapping != s.mapping || last.before != s.before || last.region != s.region || last.site != s.site || last.held != s.held || last.part != s.part {
		return false
	}
	last.end = s.end
	return true
}

// find returns the last span that starts at or below addr, or -1.
func (l *layout) find(addr uint64) int {
	lo, hi := 0, len(l.starts)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if l.starts[mid] <= addr {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo - 1
}

// usage is the kernel's view of the process, from the one reading of smaps.
func (l *layout) usage() report.Usage {
	var anon uint64
	for i := range l.mappings {
		anon += l.mappings[i].anonymous
	}
	return report.Usage{
		RSS: l.sum.Rss, PSS: l.sum.Pss, USS: l.sum.USS(), Swap: l.sum.Swap,
		Anon: anon, File: l.file, Shmem: l.shmem,
	}
}

// split divides the resident set. Its parts add up to the RSS of usage.
func (l *layout) split(pages *pageStates) (by report.RSSBy, traced, unmeasured uint64) {
	l.runtime.begin()
	for i := range l.mappings {
		m := &l.mappings[i]
		if m.blocks && m.pages == pagesUnknown {
			unmeasured += m.rss
		}
		if m.isHeap() && m.pages != pagesUnknown {
			traced += l.splitHeap(m, pages, &by)
			continue
		}
		switch m.class {
		case classAnon:
			by.AnonMmap += m.rss
			traced += l.ownOf(m, pages)
			l.measureParts(m, pages)
		case classStack:
			by.Stack += m.rss
		case classFile:
			by.File += m.rss - m.anonymous
			by.Other += m.anonymous
		case classShmem:
			by.Shmem += m.rss - m.anonymous
			by.Other += m.anonymous
		default:
			own, static := l.ownBehind(m, pages), m.rss
			if m.static != 0 {
				static = l.staticOf(m, pages)
			}
			static = min(static, m.rss-own)
			by.AnonMmap += m.rss - static
			traced += own
			by.Other += static
		}
	}
	return by, traced, unmeasured
}

// splitHeap divides the resident set of a heap mapping. smaps was read before
// the page states, so its Rss sets the limit; the rest that no block covers
// is divided as the uncovered pages are. It returns how much the program was
// seen to map for its own use.
func (l *layout) splitHeap(m *mapping, pages *pageStates, by *report.RSSBy) (traced uint64) {
	var live, before, after, own, parts uint64 // the last four: resident and not covered
	spans := l.spans[m.firstSpan : m.firstSpan+m.spans]
	for i := range spans {
		s := &spans[i]
		resident, _ := pages.count(m, l.starts[m.firstSpan+i], s.end)
		live += s.live
		uncovered := resident - min(resident, s.live)
		switch {
		case s.isOwn():
			own += uncovered
		case s.isRuntime():
			parts += uncovered
		case s.before:
			before += uncovered
		default:
			after += uncovered
		}
	}
	live = min(live, m.rss)
	rest := m.rss - live
	if before+after+own+parts == 0 { // the page states know nothing: decide by the address
		switch {
		case spans[0].isOwn():
			own = 1
		case spans[0].before:
			before = 1
		}
	}
	fromBefore := proportion(rest, before, after+own+parts)
	traced = proportion(rest, own, before+after+parts)
	runtime := proportion(rest, parts, before+after+own)
	by.HeapLive += live
	by.HeapBeforeAttach += fromBefore
	by.AnonMmap += traced + runtime
	by.HeapOverhead += rest - fromBefore - traced - runtime
	if m.parts {
		l.divideParts(m, pages, traced+runtime)
	}
	return traced
}

// ownBehind is ownOf for memory that looks like the .bss of the file before it:
// the kernel may put what a program maps right behind that.
func (l *layout) ownBehind(m *mapping, pages *pageStates) uint64 {
	if !m.mayBeHeap {
		return 0
	}
	return l.ownOf(m, pages)
}

// staticOf is how much of a mapping's resident set is the file's static data.
func (l *layout) staticOf(m *mapping, pages *pageStates) uint64 {
	switch m.pages {
	case pagesKnown:
		resident, _ := pages.count(m, m.start, m.static)
		return resident
	case pagesNone:
		return 0
	}
	return m.static - m.start // at the most
}

// ownOf is how much of a mapping's resident set the program was seen to map
// for its own use.
func (l *layout) ownOf(m *mapping, pages *pageStates) (own uint64) {
	if !m.regions {
		return 0
	}
	for i := range m.spans {
		s := &l.spans[m.firstSpan+i]
		switch {
		case !s.isOwn():
		case m.spans == 1:
			own = m.rss
		default:
			resident, _ := pages.count(m, l.starts[m.firstSpan+i], s.end)
			own += resident
		}
	}
	return min(own, m.rss)
}

// Baseline is the memory that a process may have had blocks in when memtrace
// attached to it: [heap] and private anonymous mappings. A nil Baseline is
// empty.
type Baseline struct{ ranges []addrRange }

// ReadBaseline reads a process's Baseline, as of now.
func ReadBaseline(p *procfs.Process) (*Baseline, error) {
	b := new(Baseline)
	err := p.MapsWith(procfs.Write, func(v *procfs.VMA) {
		if v.Perms&procfs.Shared == 0 && (v.Kind == procfs.KindHeap || v.Kind == procfs.KindAnon) {
			b.ranges = append(b.ranges, addrRange{v.Start, v.End})
		}
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(b.ranges, func(x, y addrRange) int {
		if x.start < y.start {
			return -1
		}
		return 1
	})
	return b, nil
}

// all returns the ranges in ascending order.
func (b *Baseline) all() []addrRange {
	if b == nil {
		return nil
	}
	return b.ranges
}

// keepOnly forgets what is no private anonymous mapping any more: what is
// mapped there later is new.
func (b *Baseline) keepOnly(mappings []mapping) {
	if b == nil {
		return
	}
	var kept []addrRange
	i := 0
	for _, r := range b.ranges {
		for i < len(mappings) && mappings[i].end <= r.start {
			i++
		}
		for j := i; j < len(mappings) && mappings[j].start < r.end; j++ {
			if m := &mappings[j]; m.mayBeHeap {
				kept = append(kept, addrRange{max(r.start, m.start), min(r.end, m.end)})
			}
		}
	}
	b.ranges = kept
}
