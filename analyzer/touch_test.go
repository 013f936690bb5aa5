package analyzer

import (
	"testing"

	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/tracer/event"
)

const (
	testPage   = 4096
	plainTouch = event.FaultTouch | event.FaultWrite
	copyTouch  = plainTouch | event.FaultMapped
)

// touchTest is a trace without probes of process 1, by hand.
type touchTest struct {
	*Analyzer
	now uint64
}

func newTouchTest() *touchTest {
	a := New(Config{FollowForks: true, PageSize: testPage, Tracer: report.TracerInfo{Attach: report.NoProbes}})
	a.Take(input.Started{ProcessInfo: ProcessInfo{PID: 1, Unprobed: true}})
	return &touchTest{Analyzer: a}
}

func (a *touchTest) fault(pid uint32, page uint64, stack event.StackID, flags event.Flags) {
	a.now++
	a.Take(&input.Events{Events: []event.Event{{Kind: event.Fault, Time: a.now, PID: pid, TID: pid, Addr: page*testPage + 8, Stack: stack, Flags: flags}}})
}

func (a *touchTest) fork(child uint32) {
	a.now++
	a.Take(&input.Events{Events: []event.Event{{Kind: event.Fork, Time: a.now, PID: 1, TID: 1, Child: child}}})
}

// held is how many pages a stack holds in a process.
func (a *touchTest) held(pid uint32, stack event.StackID) uint64 {
	p := a.byPID[pid]
	id, ok := p.image.sites[stack]
	if !ok {
		return 0
	}
	s := a.sites.at(id)
	if s.allocCount+s.inherited != s.freeCount+s.gone+s.liveCount || s.liveBytes != s.liveCount*testPage {
		return 1 << 63 // which no test wants
	}
	return s.liveCount
}

func pagesAt(first, last uint64) []input.Range {
	return []input.Range{{Start: first * testPage, End: (last + 1) * testPage}}
}

func (a *touchTest) want(t *testing.T, what string, pid uint32, held ...uint64) {
	t.Helper()
	var sum uint64
	for i, want := range held {
		if got := a.held(pid, event.StackID(i+1)); got != want {
			t.Errorf("%s: stack %d holds %d pages of process %d, want %d", what, i+1, got, pid, want)
		}
		sum += want
	}
	if got := a.byPID[pid].total.LiveCount; got != sum {
		t.Errorf("%s: process %d holds %d pages, want %d", what, pid, got, sum)
	}
}

func TestTouchedPagesBelongToTheFirst(t *testing.T) {
	a := newTouchTest()
	a.fault(1, 10, 1, plainTouch)
	a.fault(1, 11, 1, event.FaultTouch) // reads
	a.want(t, "touched", 1, 2, 0)
	a.fault(1, 10, 2, copyTouch) // after a fork: the page stays whose it was
	a.want(t, "own page copied", 1, 2, 0)
	a.fault(1, 11, 2, copyTouch) // until now there were zeros
	a.want(t, "written after it was read", 1, 1, 1)
	a.fault(1, 10, 2, plainTouch) // it was not there
	a.want(t, "unmapped and touched again", 1, 0, 2)
	a.Take(input.Touches{PID: 1, Gone: pagesAt(10, 10)})
	a.want(t, "gone", 1, 0, 1)
}

func TestSwappedPagesStay(t *testing.T) {
	a := newTouchTest()
	a.fault(1, 70, 1, plainTouch)
	a.Take(input.Touches{PID: 1, Swapped: pagesAt(70, 70)})
	a.fault(1, 70, 2, plainTouch) // swaps it in
	a.want(t, "swapped in", 1, 1, 0)
	a.fault(1, 70, 2, plainTouch) // it is another now
	a.want(t, "touched again", 1, 0, 1)
	if n := a.byPID[1].touched.swapIns; n != 1 {
		t.Errorf("%d pages swapped in, want 1", n)
	}
}

func TestChildCopiesItsParentsPages(t *testing.T) {
	a := newTouchTest()
	for page := range uint64(100) {
		a.fault(1, page, 1, plainTouch)
	}
	a.fork(2)
	a.want(t, "forked", 2, 100, 0)
	for page := range uint64(30) {
		a.fault(2, page, 2, copyTouch)
	}
	a.want(t, "copied", 2, 70, 30)
	a.want(t, "the parent's", 1, 100, 0)
	child := a.byPID[2]
	a.now++
	a.Take(&input.Events{Events: []event.Event{{Kind: event.Exit, Time: a.now, PID: 2, TID: 2}}})
	if child.total.LiveCount != 30 || child.touched.copies != 30 {
		t.Errorf("the child ended with %d pages of its own and %d copies, want 30 of each", child.total.LiveCount, child.touched.copies)
	}
}

func TestPagesThatWereThereAreNobodys(t *testing.T) {
	a := newTouchTest()
	a.fault(1, 600, 1, plainTouch)
	a.Take(input.Touches{PID: 1, Before: pagesAt(500, 700)})
	a.want(t, "there before", 1, 1, 0)
	a.fault(1, 500, 2, copyTouch) // that is no growth
	a.want(t, "written to", 1, 1, 0)
	a.fault(1, 501, 2, plainTouch) // it had gone
	a.want(t, "touched anew", 1, 1, 1)
	a.Take(input.Touches{PID: 1, Along: []input.TouchedWith{{Range: pagesAt(700, 711)[0], Site: uint32(a.byPID[1].image.sites[2])}}})
	a.want(t, "with the pages that came along", 1, 1, 12)
}

// A process may touch pages far apart, and a recording may say anything.
func TestTouchesAreBounded(t *testing.T) {
	a := newTouchTest()
	a.touchRoom.chunks = 4
	for i := range uint64(10) {
		a.fault(1, i<<20, 1, plainTouch)
	}
	a.want(t, "no room", 1, 4)
	if lost := a.byPID[1].touched.lost; lost != 6 {
		t.Errorf("%d touches lost, want 6", lost)
	}
	a.fault(1, 1<<51, 1, plainTouch) // an address of the kernel's half
	a.Take(input.Touches{PID: 1, Gone: []input.Range{{Start: 0, End: 1 << 62}, {Start: 9, End: 3}}})
	a.Take(input.Touches{PID: 7, Gone: pagesAt(0, 1)})
	a.Take(input.Touches{PID: 1, Along: []input.TouchedWith{{Range: pagesAt(0, 1)[0], Site: 1 << 30}}})
}

// Ranges that come again and again, as a hostile recording may have them, are looked at once.
func TestRangesOfTouchesAscend(t *testing.T) {
	a := newTouchTest()
	defer a.Close()
	var ranges []input.Range
	for range 10 {
		ranges = append(ranges, pagesAt(0, 99)...)
	}
	backwards := input.Range{Start: 900 * testPage, End: 3}
	ranges = append(ranges, pagesAt(50, 199)[0], backwards, pagesAt(200, 210)[0], pagesAt(120, 130)[0])
	looked := 0
	for range a.pagesIn(ranges) {
		looked++
	}
	if looked != 111 {
		t.Errorf("%d pages are looked at, want 111", looked)
	}
	for page := range uint64(300) {
		a.fault(1, page, 1, plainTouch)
	}
	looked = 0
	table := a.byPID[1].touched
	for range a.ownedIn(table, table.numbers(), ranges) {
		looked++
	}
	if looked != 111 {
		t.Errorf("%d owned pages are looked at, want 111", looked)
	}
	var along []input.TouchedWith
	for _, r := range ranges {
		along = append(along, input.TouchedWith{Range: r})
	}
	looked = 0
	for range alongIn(&input.Touches{Along: along}) {
		looked++
	}
	if looked != 2 {
		t.Errorf("%d ranges came along, want 2", looked)
	}
}

// A child's pages that there is no room for are lost one by one, whosever they were.
func TestInheritedPagesWithoutRoomAreCounted(t *testing.T) {
	a := newTouchTest()
	defer a.Close()
	for i := range uint64(3) {
		a.fault(1, i*touchPages, 1, plainTouch)
		a.fault(1, i*touchPages+1, 1, plainTouch)
	}
	a.touchRoom.chunks = 1
	a.fork(2)
	child := a.byPID[2]
	a.want(t, "with room for two", 2, 2)
	if child.touched.lost != 4 {
		t.Errorf("%d of the parent's pages are lost, want 4", child.touched.lost)
	}
}

// What begins with a Savepoint has pages and room of its own.
func TestSavepointOfTouches(t *testing.T) {
	for _, mechanism := range []string{"perf", report.NoProbes} {
		config := Config{
			FollowForks: true, PageSize: testPage, BlockRoom: 1 << 20, Tracer: report.TracerInfo{Attach: mechanism},
		}
		a := &touchTest{Analyzer: New(config)}
		defer a.Close()
		a.Take(input.Started{ProcessInfo: ProcessInfo{PID: 1}})
		touch := func(a *touchTest, first uint64) {
			for i := range uint64(2000) {
				a.fault(1, first+i*touchPages, 7, plainTouch)
			}
		}
		touch(a, 0)
		b := &touchTest{Analyzer: New(config), now: a.now}
		defer b.Close()
		if err := b.Restore(a.Savepoint()); err != nil {
			t.Fatal(err)
		}
		for _, x := range []*touchTest{a, b} {
			x.Take(input.Touches{PID: 1, Gone: pagesAt(0, 100*touchPages)})
			touch(x, 1<<30)
			x.Take(input.Instant{Now: x.now})
		}
		if got, want := reportText(t, b.Analyzer), reportText(t, a.Analyzer); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", mechanism, got, want)
		}
		if a.blocks.used == 0 || a.blocks.used != b.blocks.used || a.touchRoom.chunks != b.touchRoom.chunks ||
			b.touchRoom.blocks != &b.blocks {
			t.Errorf("%s: %d bytes are used, and %d", mechanism, a.blocks.used, b.blocks.used)
		}
	}
}
