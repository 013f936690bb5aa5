//go:build linux && !viewer

package analyzer

import (
	"maps"
	"testing"

	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/procfs"
)

// hugePages is how many pages the kernel makes present at once as a huge one.
var hugePages = hugeAround / pageBytes

// readPresent has a reader look at a mapping all of whose pages are present.
func readPresent(t *testing.T, r *touchReader, m *mapping) {
	t.Helper()
	var pages pageStates
	pages.reset()
	if !pages.reserve(m) {
		t.Fatal("no room")
	}
	present := listedRuns{{m.start, m.end, procfs.PagePresent}}
	if err := pages.fill(m, present); err != nil {
		t.Fatal(err)
	}
	r.sites = make(map[siteID]uint64)
	r.findNew(m, &pages)
}

// pagesFrom is a mapping of so many pages.
func pagesFrom(first, n, around uint64) *mapping {
	return &mapping{start: first * pageBytes, end: (first + n) * pageBytes, around: around, rss: 1}
}

// touchTableOf has pages of sites, or of nobody.
func touchTableOf(owners map[uint64]touchOwner) *touchTable {
	t := newTouchTable(&touchRoom{chunks: len(owners)}, nil)
	for page, o := range owners {
		t.set(page, o)
	}
	return t
}

// alongOf are the pages that came along, by the page that they came with.
func alongOf(r *touchReader) map[uint64]int {
	out := make(map[uint64]int)
	for _, w := range r.out.Along {
		out[w.Start/pageBytes+uint64(int64(int32(w.Site)))] += int((w.End - w.Start) / pageBytes)
	}
	return out
}

// TestPagesComeWithTheNearest of those that the kernel maps together: none of another mapping, and none where the
// nearest was there before.
func TestPagesComeWithTheNearest(t *testing.T) {
	perFault := fileAround / pageBytes
	for what, c := range map[string]struct {
		owners map[uint64]touchOwner
		want   map[uint64]int
	}{
		"a site's alone":       {map[uint64]touchOwner{130: 1}, map[uint64]int{130: 3}},
		"above and below":      {map[uint64]touchOwner{128: 1, 131: 2}, map[uint64]int{128: 1, 131: 1}},
		"another mapping's":    {map[uint64]touchOwner{127: 1, 132: 1}, map[uint64]int{}},
		"from before, below":   {map[uint64]touchOwner{128: touchBefore, 131: 1}, map[uint64]int{131: 1}},
		"from before, as near": {map[uint64]touchOwner{128: touchBefore, 130: 1}, map[uint64]int{130: 1}},
	} {
		r := &touchReader{table: touchTableOf(c.owners), inSpans: true}
		readPresent(t, r, pagesFrom(128, 4, 2*perFault*pageBytes))
		if got := alongOf(r); !maps.Equal(got, c.want) || len(r.out.Before) != 0 {
			t.Errorf("%s: by the page that they came with %v, and %v from before; want %v", what, got, r.out.Before, c.want)
		}
	}
}

// TestFirstReadingAfterASpanBegan comes late where a process is large: what came with pages that were touched meanwhile
// was not there before. Of small pages nobody can tell.
func TestFirstReadingAfterASpanBegan(t *testing.T) {
	n := hugePages
	before := func(pages uint64) uint64 { return pages * pageBytes }
	for what, c := range map[string]struct {
		m         *mapping
		owners    map[uint64]touchOwner
		want      map[uint64]int
		wantBytes uint64 // from before
	}{
		"a huge page":                    {pagesFrom(n, n, hugeAround), map[uint64]touchOwner{n + 7: 1}, map[uint64]int{n + 7: int(n) - 1}, 0},
		"beside one from before":         {pagesFrom(n, 2*n, hugeAround), map[uint64]touchOwner{n: 1}, map[uint64]int{n: int(n) - 1}, before(n)},
		"small pages, the last ones new": {pagesFrom(n, n, hugeAround), map[uint64]touchOwner{2*n - 2: 1, 2*n - 1: 1}, map[uint64]int{}, before(n - 2)},
		"none is huge there":             {pagesFrom(n, n, 0), map[uint64]touchOwner{n: 1}, map[uint64]int{}, before(n - 1)},
		"less than a huge page":          {pagesFrom(n, n-1, hugeAround), map[uint64]touchOwner{n: 1}, map[uint64]int{}, before(n - 2)},
		"of a file":                      {pagesFrom(128, 8, fileAround), map[uint64]touchOwner{128: 1}, map[uint64]int{128: 7}, 0},
		"copied, so that it was there":   {pagesFrom(n, n, hugeAround), map[uint64]touchOwner{n: touchBefore}, map[uint64]int{}, before(n - 1)},
	} {
		r := &touchReader{table: touchTableOf(c.owners), inSpans: true, first: true}
		readPresent(t, r, c.m)
		if got := alongOf(r); !maps.Equal(got, c.want) || r.known.before != c.wantBytes {
			t.Errorf("%s: by the page that they came with %v, and %d bytes from before; want %v and %d", what, got, r.known.before, c.want, c.wantBytes)
		}
	}
	r := &touchReader{table: touchTableOf(map[uint64]touchOwner{n: 1}), first: true}
	readPresent(t, r, pagesFrom(n, n, hugeAround))
	if len(r.out.Along) != 0 || r.known.before != before(n-1) {
		t.Errorf("as a trace without probes begins, %v came along, and %v was there before", r.out.Along, r.out.Before)
	}
}

// TestNearestPage is that which looking at each page one by one finds.
func TestNearestPage(t *testing.T) {
	table := touchTableOf(map[uint64]touchOwner{1: 1, 63: touchBefore, 64: 2, 200: 3, 201: touchBefore, 400: 4})
	for first, last := range map[uint64]uint64{0: 511, 64: 127, 100: 300} {
		for page := first; page <= last; page++ {
			for _, has := range []touchOwner{touchSite, touchSite | touchBefore} {
				var want uint64
				for d := uint64(1); want == 0 && d < 512; d++ {
					switch {
					case page >= first+d && table.get(page-d)&has != 0:
						want = page - d
					case page+d <= last && table.get(page+d)&has != 0:
						want = page + d
					}
				}
				if at, o := table.nearest(page, first, last, has); at != want || o != table.get(want) {
					t.Errorf("of %d to %d nearest to %d is %d (%x), want %d", first, last, page, at, o, want)
				}
			}
		}
	}
}

// TestManyPiecesAreAllTold in as many inputs as it takes, of which a recording can hold each.
func TestManyPiecesAreAllTold(t *testing.T) {
	const pieces = 2*maxTouchRanges + 10
	r := &touchReader{table: newTouchTable(new(touchRoom), nil), first: true}
	for i := range uint64(pieces) {
		r.add(&r.out.Gone, 2*i)
	}
	for i := range uint64(pieces) {
		r.addNew(pagesFrom(0, 2*pieces, 0), 2*i)
	}
	a := newTouchTest()
	defer a.Close()
	for i := range uint64(pieces) {
		a.fault(1, 2*i, 1, plainTouch)
	}
	parts := r.inputs(1, 5)
	for i, part := range parts {
		part.Before = nil
		if a.Take(part); len(part.Gone) > maxTouchRanges || part.BeforeBytes != pieces*pageBytes || part.Now != 5 {
			t.Errorf("part %d has %d pieces, %d bytes from before, and is of %d", i, len(part.Gone), part.BeforeBytes, part.Now)
		}
	}
	a.want(t, "all are gone", 1, 0)
	for _, part := range parts {
		part.Gone = nil
		a.Take(part)
	}
	if n := len(a.byPID[1].touched.chunks); n != pieces*2/touchPages+1 || !a.byPID[1].touched.begun {
		t.Errorf("%d chunks of pages from before, of %d pieces; begun %v", n, pieces, a.byPID[1].touched.begun)
	}
}

// TestReadingsGoOn: what was there before, and did not fit in one reading, is told by the next one, and is nobody's
// growth.
func TestReadingsGoOn(t *testing.T) {
	const pieces = maxTouchParts*maxTouchRanges + 10
	r := &touchReader{table: newTouchTable(new(touchRoom), nil), first: true}
	for i := range uint64(pieces) {
		r.addNew(pagesFrom(0, 2*pieces, 0), 2*i)
	}
	parts := r.inputs(1, 5)
	told := maxTouchParts * maxTouchRanges * pageBytes
	if last := parts[len(parts)-1]; len(parts) != maxTouchParts || isWhole(&last) || last.BeforeBytes != told {
		t.Errorf("%d parts, the last one is of %d pieces and says %d bytes from before", len(parts), len(last.Before), last.BeforeBytes)
	}
	a := newSpanTest()
	defer a.Close()
	a.Take(parts[len(parts)-1])
	if r := a.spanReader(a.byPID[1]); !r.first {
		t.Error("the next reading takes the rest for growth")
	}
	a.Take(input.Touches{PID: 1})
	if r := a.spanReader(a.byPID[1]); r.first {
		t.Error("readings begin again and again")
	}
}
