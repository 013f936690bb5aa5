//go:build linux && !viewer

package analyzer

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/memtrace/memtrace/analyzer/input"
)

// A touchReader compares the touched pages of a process with what the kernel says is there.
type touchReader struct {
	table *touchTable
	first bool // what is there and nobody's was there before the trace, or before the first span
	// inSpans: the table is a spanTouches'. A page that no fault was seen of is then that of the nearest page's owner,
	// and nobody's where that was there before. The first reading may come seconds after the span's beginning.
	inSpans bool
	out     input.Touches   // being made
	parts   []input.Touches // those that are full
	known   knownResident
	sites   map[siteID]uint64 // resident bytes
	keys    []uint64
	block   touchBlock
	pages   *pageStates
	busy    map[uint64]bool // pages that the kernel may be about to put there
}

// knownResident is what of a process's resident set is known, bytes: see input.Touches.
type knownResident struct{ explained, before uint64 }

// maxTouchParts bounds the inputs that one reading makes, of maxTouchRanges each: 48 MB. The rest is for the next
// reading.
const maxTouchParts = 16

// readTouched reads the page states of all mappings that have any, and compares.
func (r *Residency) readTouched() error {
	t := r.touched
	if t == nil {
		return nil
	}
	for i := range r.layout.mappings {
		m := &r.layout.mappings[i]
		if m.pages == pagesUnread && m.hugetlb == 0 {
			if err := r.readPages(m); err != nil {
				return err
			}
		}
	}
	t.sites, t.busy = make(map[siteID]uint64), make(map[uint64]bool)
	for _, page := range t.table.latest {
		t.busy[page] = true
	}
	t.compareOwned(&r.layout, &r.pages)
	for i := range r.layout.mappings {
		if m := &r.layout.mappings[i]; m.pages == pagesKnown && m.hugetlb == 0 {
			t.findNew(m, &r.pages)
		}
	}
	return nil
}

// compareOwned finds which of the touched pages are there, in the order of their addresses.
func (t *touchReader) compareOwned(l *layout, pages *pageStates) {
	t.keys = t.keys[:0]
	for number := range t.table.chunks {
		t.keys = append(t.keys, number)
	}
	slices.Sort(t.keys)
	next := 0
	for _, number := range t.keys {
		first := number * touchPages
		for next < len(l.mappings) && l.mappings[next].end>>pageShift <= first {
			next++
		}
		var present, swapped, unknown uint64
		for i := next; i < len(l.mappings) && l.mappings[i].start>>pageShift < first+touchPages; i++ {
			m := &l.mappings[i]
			mask := maskWithin(m, first)
			switch {
			case m.pages == pagesKnown:
				p, s := pages.word(m, first)
				present |= p & mask
				swapped |= s & mask
			case m.pages != pagesNone:
				unknown |= mask
			}
		}
		t.compareChunk(number, present, swapped, unknown)
	}
}

// maskWithin has the bits of the 64 pages from first on that lie in a mapping.
func maskWithin(m *mapping, first uint64) uint64 {
	lo, hi := max(m.start>>pageShift, first), min((m.end-1)>>pageShift, first+touchPages-1)
	if hi < lo {
		return 0
	}
	return maskOf(lo, hi)
}

// compareChunk compares 64 pages.
func (t *touchReader) compareChunk(number, present, swapped, unknown uint64) {
	c := t.table.chunks[number]
	for m := c.owned & present; m != 0; m &= m - 1 {
		t.count(c.owners[bits.TrailingZeros64(m)])
	}
	gone := c.owned &^ (present | swapped | unknown)
	for m := gone; m != 0; m &= m - 1 {
		// A fault is told of before the kernel handles it, and to clear a huge page takes a while.
		if page := number*touchPages + uint64(bits.TrailingZeros64(m)); !t.busy[page] {
			t.add(&t.out.Gone, page)
		}
	}
	for m := c.owned & swapped; m != 0; m &= m - 1 {
		if i := bits.TrailingZeros64(m); c.owners[i]&touchSwapped == 0 {
			t.add(&t.out.Swapped, number*touchPages+uint64(i))
		}
	}
}

// count counts a page that is resident.
func (t *touchReader) count(o touchOwner) {
	if id, ok := o.site(); ok {
		t.sites[id] += pageBytes
		t.known.explained += pageBytes
	} else {
		t.known.before += pageBytes
	}
}

// add adds a page to a list of out. It returns false where there is no room.
func (t *touchReader) add(ranges *[]input.Range, page uint64) bool {
	at := page << pageShift
	if n := len(*ranges); n > 0 && (*ranges)[n-1].End == at {
		(*ranges)[n-1].End += pageBytes
		return true
	}
	if len(*ranges) >= maxTouchRanges && !t.nextPart() {
		return false
	}
	*ranges = append(*ranges, input.Range{Start: at, End: at + pageBytes})
	return true
}

// nextPart begins another input, which the lists then are of.
func (t *touchReader) nextPart() bool {
	if len(t.parts) >= maxTouchParts-1 {
		return false
	}
	t.parts = append(t.parts, t.out)
	t.out = input.Touches{}
	return true
}

// inputs are what a reading of a process has found, the last part last.
func (t *touchReader) inputs(pid uint32, now uint64) []input.Touches {
	all := append(t.parts, t.out)
	for i := range all {
		all[i].PID, all[i].Now = pid, now
		all[i].Explained, all[i].BeforeBytes = t.known.explained, t.known.before
	}
	return all
}

// findNew finds the pages of a mapping that are present and nobody's.
func (t *touchReader) findNew(m *mapping, pages *pageStates) {
	t.pages = pages
	last := (m.end - 1) >> pageShift
	for page := m.start >> pageShift; page <= last; {
		if !pages.any(m, page) {
			page = page | (chunkPages - 1) + 1
			continue
		}
		first := page &^ (touchPages - 1)
		present, _ := pages.word(m, first)
		present &= maskWithin(m, first)
		c := t.table.chunk(first / touchPages)
		if c != nil {
			present &^= c.owned
		}
		for ; present != 0; present &= present - 1 {
			t.addNew(m, first+uint64(bits.TrailingZeros64(present)))
		}
		page = first + touchPages
	}
}

// addNew decides to whom a page belongs that no fault was seen of.
func (t *touchReader) addNew(m *mapping, page uint64) {
	if t.first && !(t.inSpans && t.cameLately(m, page)) {
		if t.add(&t.out.Before, page) {
			t.known.before += pageBytes
		}
		return
	}
	with, id, ok := t.neighbour(m, page)
	if !ok {
		return
	}
	at := page << pageShift
	n := len(t.out.Along)
	switch {
	case n > 0 && t.out.Along[n-1].End == at && t.out.Along[n-1].Site == t.along(t.out.Along[n-1].Start, with, id):
		t.out.Along[n-1].End += pageBytes
	case n < maxTouchRanges || t.nextPart():
		r := input.Range{Start: at, End: at + pageBytes}
		t.out.Along = append(t.out.Along, input.TouchedWith{Range: r, Site: t.along(at, with, id)})
	default:
		return
	}
	t.sites[id] += pageBytes
	t.known.explained += pageBytes
}

// along is TouchedWith.Site of a range that begins at start, and came with a page of a site.
func (t *touchReader) along(start, with uint64, id siteID) uint32 {
	if !t.inSpans {
		return uint32(id)
	}
	return uint32(int32(with - start>>pageShift))
}

// A touchBlock is pages that the kernel may have mapped together.
type touchBlock struct {
	first, last uint64
	owned       int  // of them in the table
	whole       bool // all that the kernel maps together is present
}

// cameLately reports whether a page that the first reading finds came since the span began, with one that was touched
// in it. A huge page is one fault. Where more were seen, or not all of it is there, it is small pages: these came by
// faults of their own.
func (t *touchReader) cameLately(m *mapping, page uint64) bool {
	_, _, ok := t.neighbour(m, page)
	return ok && (m.around != hugeAround || t.block.whole && t.block.owned == 1)
}

// neighbour is the nearest page that a site has touched among those that the kernel may have mapped together with this
// one, and that site.
func (t *touchReader) neighbour(m *mapping, page uint64) (with uint64, id siteID, ok bool) {
	around := m.around >> pageShift
	if around <= 1 {
		return 0, 0, false
	}
	b := &t.block
	if page < b.first || page > b.last {
		first := page &^ (around - 1)
		b.first, b.last = max(first, m.start>>pageShift), min(first+around-1, (m.end-1)>>pageShift)
		b.owned = t.table.ownedIn(b.first, b.last)
		b.whole = b.last-b.first+1 == around && t.pages.present(m, b.first, b.last)
	}
	if b.owned == 0 {
		return 0, 0, false
	}
	has := touchSite
	if t.inSpans {
		has |= touchBefore
	}
	with, o := t.table.nearest(page, b.first, b.last, has)
	id, ok = o.site()
	return with, id, ok
}

// nearest is the page nearest to one, of those from first to last, whose owner has one of some bits, and that owner; 0:
// there is none. Of two that are as near it is the lower.
func (t *touchTable) nearest(page, first, last uint64, has touchOwner) (at uint64, o touchOwner) {
	below, of := t.nearestBelow(page, first, has)
	if of != 0 {
		last = min(last, page+(page-below)-1)
	}
	if above, o := t.nearestAbove(page, last, has); o != 0 {
		return above, o
	}
	return below, of
}

func (t *touchTable) nearestBelow(page, first uint64, has touchOwner) (at uint64, o touchOwner) {
	for p := page; p > first; {
		p--
		c := t.chunk(p / touchPages)
		if c == nil || c.owned&(2<<(p%touchPages)-1) == 0 {
			p &^= touchPages - 1 // on to the chunk below
		} else if o := c.owners[p%touchPages]; o&has != 0 {
			return p, o
		}
	}
	return 0, 0
}

func (t *touchTable) nearestAbove(page, last uint64, has touchOwner) (at uint64, o touchOwner) {
	for p := page + 1; p <= last; p++ {
		c := t.chunk(p / touchPages)
		if c == nil || c.owned>>(p%touchPages) == 0 {
			p |= touchPages - 1 // on to the chunk above
		} else if o := c.owners[p%touchPages]; o&has != 0 {
			return p, o
		}
	}
	return 0, 0
}

// ownedIn counts the pages from first to last that have an owner.
func (t *touchTable) ownedIn(first, last uint64) (n int) {
	for number := first / touchPages; number <= last/touchPages; number++ {
		if c := t.chunk(number); c != nil {
			at := number * touchPages
			n += bits.OnesCount64(c.owned & maskOf(max(first, at), min(last, at+touchPages-1)))
		}
	}
	return n
}

// spanReader compares a process with its ledger, which may still be to come.
func (a *Analyzer) spanReader(p *process) *touchReader {
	if p.spans != nil {
		return &touchReader{table: p.spans.table, first: !p.spans.table.begun, inSpans: true}
	}
	if p.group != nil || p.groupEntry != nil {
		return nil
	}
	return &touchReader{table: newTouchTable(new(touchRoom), nil), first: true, inSpans: true}
}

// any reports whether a mapping's chunk of 512 pages has any page that is present or swapped.
func (s *pageStates) any(m *mapping, page uint64) bool {
	return s.table[m.table+int(page/chunkPages-m.firstChunk)] != 0
}

// word has the states of the 64 pages from first on, a multiple of 64, of a mapping whose states are known.
func (s *pageStates) word(m *mapping, first uint64) (present, swapped uint64) {
	i := first/chunkPages - m.firstChunk
	if first/chunkPages < m.firstChunk || m.table+int(i) >= len(s.table) || first/chunkPages > (m.end-1)>>chunkShift {
		return 0, 0
	}
	words := int(s.table[m.table+int(i)])*2*chunkWords + int(first%chunkPages/64)
	return s.words[words], s.words[words+chunkWords]
}

// present reports whether all pages from first to last, of a mapping whose states are known, are present.
func (s *pageStates) present(m *mapping, first, last uint64) bool {
	for at := first &^ (touchPages - 1); at <= last; at += touchPages {
		all := maskOf(max(first, at), min(last, at+touchPages-1))
		if present, _ := s.word(m, at); present&all != all {
			return false
		}
	}
	return true
}

// residence is where the sites' pages are, by number.
func (t *touchReader) residence() []input.SiteResidence {
	out := make([]input.SiteResidence, 0, len(t.sites))
	for id, bytes := range t.sites {
		out = append(out, input.SiteResidence{Site: uint32(id), Residence: input.Residence{Resident: bytes}})
	}
	slices.SortFunc(out, func(x, y input.SiteResidence) int { return cmp.Compare(x.Site, y.Site) })
	return out
}
