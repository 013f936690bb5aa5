package analyzer

import (
	"testing"

	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/tracer/event"
)

// newSpanTest is a trace of process 1 that has probes, but not all the time.
func newSpanTest() *touchTest {
	a := New(Config{FollowForks: true, PageSize: testPage})
	a.Take(input.Started{ProcessInfo: ProcessInfo{PID: 1}})
	return &touchTest{Analyzer: a}
}

// wantSpans checks how many pages stacks hold, by stack, and have touched.
func (a *touchTest) wantSpans(t *testing.T, what string, want map[event.StackID][2]uint64) {
	t.Helper()
	got := make(map[event.StackID][2]uint64)
	for i := range a.spanSites {
		s := &a.spanSites[i]
		if sum := got[s.stack]; s.held+s.touched != 0 {
			got[s.stack] = [2]uint64{sum[0] + s.held, sum[1] + s.touched}
		}
	}
	for stack := range want {
		if got[stack] != want[stack] {
			t.Errorf("%s: stack %d holds and has touched %v pages, want %v", what, stack, got[stack], want[stack])
		}
	}
	f := a.Report(ReportOptions{}).Touched
	if f == nil {
		t.Fatalf("%s: the Report says nothing of it", what)
	}
	var held, touched uint64
	for _, s := range f.Sites {
		held, touched = held+s.Bytes, touched+s.TouchedBytes
	}
	if held != f.Bytes || touched != f.TouchedBytes || f.Bytes != f.Count*testPage || f.TouchedBytes != f.TouchedCount*testPage {
		t.Errorf("%s: sites have %d and %d bytes, all together %+v", what, held, touched, f)
	}
	for _, s := range a.sites.all {
		if s.liveCount != 0 || s.allocCount != 0 {
			t.Errorf("%s: it counts in the live heap: %+v", what, s)
		}
	}
}

// Pages that were there before, or are touched while there are probes, are nobody's in the ledger; what is given back is.
func TestSpanTouches(t *testing.T) {
	a := newSpanTest()
	defer a.Close()
	a.fault(1, 10, 0, 0) // before the first span: nothing is kept of it
	if a.byPID[1].spans != nil || a.Report(ReportOptions{}).Touched != nil {
		t.Fatal("there is a ledger before the first span")
	}
	a.Take(input.Pause{})
	a.fault(1, 20, 7, plainTouch)
	a.fault(1, 21, 7, plainTouch)
	a.fault(1, 22, 8, plainTouch)
	a.Take(input.Touches{PID: 1, Before: pagesAt(10, 11)})
	a.wantSpans(t, "a span", map[event.StackID][2]uint64{7: {2, 2}, 8: {1, 1}})

	a.fault(1, 11, 9, copyTouch) // copied after a fork: it was there
	a.fault(1, 12, 9, copyTouch) // likewise, and not known
	a.fault(1, 30, 0, 0)         // with probes again
	a.wantSpans(t, "what was there, and a full span", map[event.StackID][2]uint64{7: {2, 2}, 8: {1, 1}, 9: {}})

	a.fault(1, 22, 7, plainTouch) // it was gone in between
	a.Take(input.Touches{PID: 1, Gone: pagesAt(20, 20)})
	a.wantSpans(t, "given back", map[event.StackID][2]uint64{7: {2, 3}, 8: {0, 1}})

	a.Take(input.Touches{PID: 1, Along: []input.TouchedWith{
		along(15, 16, 6), along(23, 25, -1), along(31, 31, -1), // with pages 21, 22, and 30
		along(40, 40, 0), along(41, 41, -100), along(42, 42, 1<<30), // that have no owner
	}})
	a.wantSpans(t, "with another page", map[event.StackID][2]uint64{7: {7, 8}, 8: {0, 1}})
}

// along is a range of pages that came with the one that lies so many beyond its first.
func along(first, last uint64, offset int) input.TouchedWith {
	return input.TouchedWith{Range: pagesAt(first, last)[0], Site: uint32(int32(offset))}
}

// A swapped page stays whose it was, with probes or without.
func TestSpanTouchesOfSwappedPages(t *testing.T) {
	a := newSpanTest()
	defer a.Close()
	a.fault(1, 20, 7, plainTouch)
	a.fault(1, 21, 7, plainTouch)
	a.Take(input.Touches{PID: 1, Swapped: pagesAt(20, 21)})
	a.fault(1, 20, 8, plainTouch)
	a.fault(1, 21, 0, 0)
	a.wantSpans(t, "swapped in", map[event.StackID][2]uint64{7: {2, 2}, 8: {}})
}

// A page that is unmapped and touched again while there are probes is nobody's, though each reading finds it there.
func TestSpanTouchesAgainWithProbes(t *testing.T) {
	a := newSpanTest()
	defer a.Close()
	a.fault(1, 20, 7, plainTouch)
	a.fault(1, 21, 7, plainTouch)
	a.Take(input.Touches{PID: 1})
	a.fault(1, 20, 0, 0)
	a.Take(input.Touches{PID: 1})
	a.wantSpans(t, "touched again", map[event.StackID][2]uint64{7: {1, 2}})
	a.fault(1, 20, 8, plainTouch) // it had gone once more
	a.wantSpans(t, "without probes", map[event.StackID][2]uint64{7: {1, 2}, 8: {1, 1}})
}

// A forked child that copies its parent's pages does not grow by that, whether they were read before or not.
func TestSpanTouchesOfAForkedChild(t *testing.T) {
	a := newSpanTest()
	defer a.Close()
	a.fault(1, 20, 7, plainTouch)
	a.fork(2)
	a.Take(input.Touches{PID: 2, Before: pagesAt(20, 20)})
	a.fault(2, 20, 8, copyTouch)
	a.fault(2, 21, 8, copyTouch)
	a.fault(2, 22, 9, plainTouch)
	a.fault(1, 20, 8, copyTouch)
	a.wantSpans(t, "copied", map[event.StackID][2]uint64{7: {1, 1}, 8: {}, 9: {1, 1}})
}

// With an exec the pages go; with a process's end its sums stay, and its table's room is free again.
func TestSpanTouchesEnd(t *testing.T) {
	a := newSpanTest()
	defer a.Close()
	room := a.touchRoom.chunks
	a.fault(1, 20, 7, plainTouch)
	a.Take(&input.Events{Events: []event.Event{{Kind: event.Exec, PID: 1, Child: 1, Time: 50}}})
	a.wantSpans(t, "after an exec", map[event.StackID][2]uint64{7: {0, 1}})
	a.fault(1, 20, 7, plainTouch)
	a.Take(&input.Events{Events: []event.Event{{Kind: event.Exit, PID: 1, Time: 60}}})
	a.fault(1, 21, 7, plainTouch)
	a.wantSpans(t, "after its end", map[event.StackID][2]uint64{7: {1, 2}})
	if a.touchRoom.chunks != room {
		t.Errorf("room for %d chunks, there was %d", a.touchRoom.chunks, room)
	}
}

// Stacks that there is no room for count together, for each process.
func TestSpanTouchesOfManyStacks(t *testing.T) {
	a := New(Config{PageSize: testPage, SiteRoom: 3 * siteBytes})
	defer a.Close()
	a.Take(input.Started{ProcessInfo: ProcessInfo{PID: 1}})
	x := &touchTest{Analyzer: a}
	const stacks = 50
	for i := range uint64(stacks) {
		x.fault(1, i, event.StackID(i+1), plainTouch)
	}
	f := a.Report(ReportOptions{}).Touched
	if f.Count != stacks || len(f.Sites) >= stacks/2 || f.Sites[0].Function != "[all other sites]" {
		t.Errorf("%d pages of %d sites: %+v", f.Count, len(f.Sites), f.Sites[0])
	}
}

// What had no room stays counted when its process ends, or executes another program.
func TestSpanTouchesLostBeforeTheEnd(t *testing.T) {
	a := newSpanTest()
	defer a.Close()
	a.touchRoom.chunks = 1
	a.fault(1, 1, 7, plainTouch)
	for i, end := range []event.Event{
		{Kind: event.Exec, PID: 1, Child: 1, Time: 50}, {Kind: event.Exit, PID: 1, Time: 60},
	} {
		a.fault(1, 1, 7, plainTouch)
		a.fault(1, 1000, 8, plainTouch)
		a.Take(&input.Events{Events: []event.Event{end}})
		if f := a.Report(ReportOptions{}).Touched; f.PagesLost != uint64(i+1) {
			t.Errorf("%d touches are said to be lost, of %d: %+v", f.PagesLost, i+1, f)
		}
	}
}

// Touches by children that are not listed one by one are counted, with probes at other times or without any.
func TestTouchesOfACrowd(t *testing.T) {
	for _, mechanism := range []string{"perf", report.NoProbes} {
		a := &touchTest{Analyzer: New(Config{
			FollowForks: true, PageSize: testPage, maxListed: 1, Tracer: report.TracerInfo{Attach: mechanism},
		})}
		defer a.Close()
		a.Take(input.Started{ProcessInfo: ProcessInfo{PID: 1}})
		const children = 5
		for i := range uint32(children) {
			a.fork(10 + i)
			a.fault(10+i, 20, 7, plainTouch)
			a.fault(10+i, 21, 8, plainTouch)
			a.now++
			a.Take(&input.Events{Events: []event.Event{{Kind: event.Exit, PID: 10 + i, Time: a.now}}})
		}
		r := a.Report(ReportOptions{})
		var got uint64
		if f := r.Processes[1].FirstTouch; mechanism == report.NoProbes && f != nil && r.Touched == nil {
			got = f.ChildTouches
		} else if mechanism != report.NoProbes && f == nil && r.Touched != nil {
			got = r.Touched.ChildTouches
		}
		if got != 2*children {
			t.Errorf("%s: %d touches of %d: %+v, %+v", mechanism, got, 2*children, r.Touched, r.Processes[1].FirstTouch)
		}
	}
}

// Touched pages and live blocks take their memory from one room, of which pages leave half.
func TestTouchesShareTheRoomOfBlocks(t *testing.T) {
	a := &touchTest{Analyzer: New(Config{PageSize: testPage, BlockRoom: 64 << 10})}
	defer a.Close()
	a.Take(input.Started{ProcessInfo: ProcessInfo{PID: 1}})
	const each = 1000
	for i := range uint64(each) {
		a.fault(1, i*touchPages, 7, plainTouch)
	}
	kept, most := len(a.byPID[1].spans.table.chunks), int(a.config.BlockRoom/2/touchChunkBytes)
	if lost := a.Report(ReportOptions{}).Touched.PagesLost; kept != most || int(lost) != each-kept {
		t.Errorf("%d chunks of %d were kept, and %d lost; there is room for %d", kept, each, lost, most)
	}
	blocks := func() int { // that there is room for
		for i := range uint64(2 * each) {
			a.now++
			a.Take(&input.Events{Events: []event.Event{{
				Kind: event.Alloc, Time: a.now, PID: 1, TID: 1, Addr: 0x100000 + i*64, Size: 8,
			}}})
		}
		return int(a.byPID[1].total.LiveCount)
	}
	beside := blocks()
	if used := a.blocks.used; used > a.config.BlockRoom/4*3 || beside == 0 || beside == 2*each {
		t.Errorf("%d blocks beside %d chunks take %d bytes of %d", beside, kept, used, a.config.BlockRoom)
	}
	a.Take(input.Touches{PID: 1, Gone: pagesAt(0, each*touchPages)})
	if alone := blocks(); alone < 2*beside {
		t.Errorf("there is room for %d blocks once the pages are gone, for %d before", alone, beside)
	}
}

// Without room touches are counted, and what a Report leaves out is in its sums.
func TestSpanTouchesBeyondTheRoom(t *testing.T) {
	a := newSpanTest()
	defer a.Close()
	a.touchRoom.chunks = 1
	a.fault(1, 1, 7, plainTouch)
	a.fault(1, 2, 8, plainTouch)
	a.fault(1, 1000, 9, plainTouch)
	f := a.Report(ReportOptions{Top: 1}).Touched
	if f.PagesLost != 1 || f.Bytes != 2*testPage || len(f.Sites) != 1 || f.SitesMore != 2 {
		t.Errorf("%+v", f)
	}
}
