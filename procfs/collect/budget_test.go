package collect

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memtrace/memtrace/procfs"
)

// tree is a proc file system of processes that tests change at will, and a
// clock: each walk takes as long as the test says.
type tree struct {
	t    *testing.T
	root string
	at   time.Time
	step time.Duration // by which each look at the clock moves it on
}

func newTree(t *testing.T) *tree {
	return &tree{t: t, root: t.TempDir(), at: time.Unix(1000, 0)}
}

func (tr *tree) put(pid, ppid, pages, faults int) {
	tr.t.Helper()
	dir := filepath.Join(tr.root, fmt.Sprint(pid))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		tr.t.Fatal(err)
	}
	stat := fmt.Sprintf("%d (p) S %d 0 0 0 0 0 %d 0 0 0 0 0 0 0 20 0 1 0 %d 8192000 %d 0 0\n", pid, ppid, faults, pid*10, pages)
	rollup := fmt.Sprintf("400000-7fff00000000 ---p 00000000 00:00 0 [rollup]\nRss: %d kB\nPss: %d kB\n", pages*4, pages*4)
	for name, text := range map[string]string{"stat": stat, "smaps_rollup": rollup, "statm": fmt.Sprintf("2000 %d 1 1 0 1 0\n", pages)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			tr.t.Fatal(err)
		}
	}
}

func (tr *tree) replace(pid int, name, old, new string) {
	tr.t.Helper()
	path := filepath.Join(tr.root, fmt.Sprint(pid), name)
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), old) {
		tr.t.Fatalf("%q is not in %q: %v", old, text, err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), old, new, 1)), 0o644); err != nil {
		tr.t.Fatal(err)
	}
}

func (tr *tree) remove(pid int) {
	if err := os.RemoveAll(filepath.Join(tr.root, fmt.Sprint(pid))); err != nil {
		tr.t.Fatal(err)
	}
}

func (tr *tree) open(b Budget) *Collector {
	c := open(tr.t, Options{Root: tr.root, Workers: 1, Budget: b})
	c.now = func() time.Time {
		tr.at = tr.at.Add(tr.step)
		return tr.at
	}
	var used time.Duration
	c.cpu = func() time.Duration {
		used += tr.step
		return used
	}
	return c
}

// pass lets time go by and collects.
func (tr *tree) pass(c *Collector, later time.Duration) *Pass {
	tr.t.Helper()
	tr.at = tr.at.Add(later)
	return collectAll(tr.t, c, Memory)
}

func wantWalks(t *testing.T, p *Pass, what string, done, unchanged, deferred int) {
	t.Helper()
	w := p.Walks
	if w.Done != done || w.Unchanged != unchanged || w.Deferred != deferred {
		t.Errorf("%s: got %+v; want %d done, %d unchanged, %d deferred", what, w, done, unchanged, deferred)
	}
}

func TestUnchangedAreNotWalked(t *testing.T) {
	tr := newTree(t)
	tr.put(10, 1, 100, 5)
	tr.put(20, 1, 100, 5)
	c := tr.open(Budget{MaxAge: time.Minute})
	wantWalks(t, tr.pass(c, 0), "first", 2, 0, 0)
	wantWalks(t, tr.pass(c, time.Second), "no change", 0, 2, 0)
	tr.put(20, 1, 100, 6) // a fault, though the pages are as many
	p := tr.pass(c, time.Second)
	wantWalks(t, p, "one fault", 1, 1, 0)
	if p.Walks.Oldest != 2*time.Second || !p.find(10).MemoryAt.Equal(time.Unix(1000, 0)) {
		t.Errorf("oldest %v, of %v", p.Walks.Oldest, p.find(10).MemoryAt)
	}
	wantWalks(t, tr.pass(c, time.Minute), "too old", 2, 0, 0)
}

// TestKinIsWalked: a fork turns its parent's private pages into shared ones,
// which the parent's own counters don't show.
func TestKinIsWalked(t *testing.T) {
	tr := newTree(t)
	tr.put(10, 1, 100, 5)
	tr.put(20, 1, 100, 5)
	tr.put(30, 10, 100, 5)
	c := tr.open(Budget{MaxAge: time.Minute})
	wantWalks(t, tr.pass(c, 0), "first", 3, 0, 0)
	tr.put(40, 10, 100, 5)
	wantWalks(t, tr.pass(c, time.Second), "a child of 10: with it 10 and 30", 3, 1, 0)
	tr.remove(40)
	wantWalks(t, tr.pass(c, time.Second), "it ended: 10 and 30", 2, 1, 0)
	wantWalks(t, tr.pass(c, time.Second), "nothing", 0, 3, 0)
}

func TestStallBudgetOfTarget(t *testing.T) {
	tr := newTree(t)
	tr.step = 5 * time.Millisecond // what each walk takes
	tr.put(10, 1, 100, 0)
	c := tr.open(Budget{Stall: 2 * time.Millisecond})
	held := time.Duration(0)
	walks := 0
	for i := range 50 {
		tr.put(10, 1, 100, i)
		p := tr.pass(c, 500*time.Millisecond)
		held += p.Walks.Held
		walks += p.Walks.Done
		if p.Walks.Done == 0 && (p.Walks.Deferred != 1 || !p.find(10).Behind) {
			t.Errorf("pass %d: %+v", i, p.Walks)
		}
	}
	span := tr.at.Sub(time.Unix(1000, 0))
	if allowed := time.Duration(span.Seconds()*2)*time.Millisecond + 5*time.Millisecond; held > allowed || walks < 9 {
		t.Errorf("%d walks held it for %v of %v; %v are allowed", walks, held, span, allowed)
	}
}

// TestTooLongWalkIsNotDone: 50 million pages would freeze the target for a second.
func TestTooLongWalkIsNotDone(t *testing.T) {
	tr := newTree(t)
	tr.put(10, 1, 50<<20, 0)
	tr.put(20, 1, 100, 0)
	c := tr.open(DefaultBudget())
	p := tr.pass(c, 0)
	if p.Walks.Done != 1 || p.Walks.TooLong != 1 {
		t.Errorf("%+v", p.Walks)
	}
	if _, o := p.find(10).PSS(); o != procfs.Deferred || o.Ok() || !strings.Contains(o.String(), "budget") {
		t.Errorf("outcome %v", o)
	}
	if p.find(10).RSS != 50<<20*pageSize {
		t.Errorf("RSS %d", p.find(10).RSS)
	}
}

func TestTotalBudgetTakesOldestFirst(t *testing.T) {
	tr := newTree(t)
	for pid := 10; pid < 20; pid++ {
		tr.put(pid, 1, 100, 0)
	}
	c := tr.open(Budget{Total: c10(t)})
	wantWalks(t, tr.pass(c, 0), "the first pass is free", 10, 0, 0)
	walked := make(map[int]int)
	for i := 1; i <= 10; i++ {
		p := tr.pass(c, time.Second)
		for _, x := range p.Processes {
			if x.MemoryAt.Equal(p.At) {
				walked[x.PID]++
			}
		}
		if p.Walks.Done+p.Walks.Deferred != 10 {
			t.Errorf("pass %d: %+v", i, p.Walks)
		}
	}
	for pid := 10; pid < 20; pid++ {
		if walked[pid] < 1 || walked[pid] > 4 {
			t.Errorf("process %d was walked %d times: %v", pid, walked[pid], walked)
		}
	}
}

// A process that grows is walked before others that only stir, and those have their turns all the same.
func TestTotalBudgetTakesThoseThatMovedMost(t *testing.T) {
	tr := newTree(t)
	for pid := 10; pid < 20; pid++ {
		tr.put(pid, 1, 100, 0)
	}
	var m Meter
	c := tr.open(Budget{Total: m.Predict(100*pageSize, 0) + time.Microsecond, MaxAge: time.Hour})
	tr.pass(c, 0)
	walked := make(map[int]int)
	for i := 1; i <= 40; i++ {
		for pid := 10; pid < 20; pid++ {
			tr.put(pid, 1, 100, i) // a fault each
		}
		tr.put(17, 1, 100+20*i, i)
		p := tr.pass(c, time.Second)
		for _, x := range p.Processes {
			if x.MemoryAt.Equal(p.At) {
				walked[x.PID]++
			}
		}
		if i == 1 && (p.Walks.Done == 0 || !p.find(17).MemoryAt.Equal(p.At)) {
			t.Errorf("the one that grew is not walked first: %+v", p.Walks)
		}
	}
	for pid := 10; pid < 20; pid++ {
		if least := map[bool]int{true: 8, false: 1}[pid == 17]; walked[pid] < least {
			t.Errorf("process %d was walked %d times, want %d or more: %v", pid, walked[pid], least, walked)
		}
	}
}

// c10 is what a little over two walks of 100 pages are predicted to take.
func c10(t *testing.T) time.Duration {
	t.Helper()
	var m Meter
	return m.Predict(100*pageSize, 0)*2 + time.Microsecond
}

func TestMeterLearnsTheMedian(t *testing.T) {
	var m Meter
	if got := m.Predict(1000*pageSize, 0); got != fixedCost+22*time.Microsecond {
		t.Errorf("first prediction %v", got)
	}
	for i := range 1000 {
		took := fixedCost + 1000*100*time.Nanosecond
		if i%3 == 0 {
			took *= 1000 // interrupted
		}
		m.Observe(1000*pageSize, took)
	}
	if cost := m.PageCost(); cost < 75*time.Nanosecond || cost > 135*time.Nanosecond {
		t.Errorf("cost of a page: %v", cost)
	}
	before := m.PageCost()
	m.Observe(pageSize, time.Hour) // too small to tell
	if m.PageCost() != before {
		t.Error("learned from a single page")
	}
}

// TestManyMappingsArePredicted: so many are not walked without asking how many
// there are, and what they are predicted to take has them in it.
func TestManyMappingsArePredicted(t *testing.T) {
	tr := newTree(t)
	for pid, lines := range map[int]int{10: 50, 20: 40_000} {
		tr.put(pid, 1, 100, 0)
		tr.replace(pid, "statm", "2000 ", "50000 ")
		tr.replace(pid, "stat", " 8192000 ", fmt.Sprintf(" %d ", 50_000*pageSize))
		maps := strings.Repeat("7f0000000000-7f0000001000 rw-p 00000000 00:00 0\n", lines)
		if err := os.WriteFile(filepath.Join(tr.root, fmt.Sprint(pid), "maps"), []byte(maps), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range []struct {
		stall time.Duration
		done  int
	}{{100 * time.Microsecond, 1}, {2 * time.Millisecond, 2}} { // at most 5 ms, and 100 ms
		c := tr.open(Budget{Stall: x.stall})
		p := tr.pass(c, 0)
		if p.Walks.Done != x.done || p.Walks.TooLong != 2-x.done {
			t.Errorf("%v: %+v", x.stall, p.Walks)
		}
		few, counted := c.order[0].walk, c.order[1].walk
		if x.done == 1 && (counted.mappings != 40_000 || counted.predict < 12*time.Millisecond || few.mappings != 50) {
			t.Errorf("%+v, %+v", counted, few)
		}
	}
}

// TestOneWalkDoesNotMislead: what took far longer than predicted is predicted
// to take longer, yet not so much that it is never done again.
func TestOneWalkDoesNotMislead(t *testing.T) {
	tr := newTree(t)
	tr.put(10, 1, 400_000, 0)
	c := tr.open(Budget{Stall: 2 * time.Millisecond})
	tr.step = time.Minute
	tr.pass(c, 0)
	tr.step = 0
	tr.put(10, 1, 1_600_000, 1) // 35 ms by the kernel's usual pace
	if p := tr.pass(c, time.Second); p.Walks.TooLong != 1 {
		t.Errorf("just after it took a minute: %+v", p.Walks)
	}
	if p := tr.pass(c, 10*time.Hour); p.Walks.Done != 1 {
		t.Errorf("long after: %+v", p.Walks)
	}
}

// TestSeldomIsSpread: what seldom changes is read again after RefreshEvery at
// most, and not of all processes in one pass.
func TestSeldomIsSpread(t *testing.T) {
	const processes = 64
	tr := newTree(t)
	write := func(pid int, line string) {
		if err := os.WriteFile(filepath.Join(tr.root, fmt.Sprint(pid), "cmdline"), []byte(line+"\x00"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for pid := 1; pid <= processes; pid++ {
		tr.put(pid, 0, 100, 0)
		write(pid, "before")
	}
	c := open(t, Options{Root: tr.root, Workers: 1, RefreshEvery: 10 * time.Second})
	c.now = func() time.Time { return tr.at }
	collectAll(t, c, Cmdline)
	for round, line := range []string{"second", "third"} {
		for pid := 1; pid <= processes; pid++ {
			write(pid, line)
		}
		read := 0
		for second := range 10 {
			tr.at = tr.at.Add(time.Second)
			before := read
			read = 0
			for _, p := range collectAll(t, c, Cmdline).Processes {
				if p.Cmdline == line {
					read++
				}
			}
			if read-before > processes/2 {
				t.Errorf("round %d, second %d: %d at once", round, second, read-before)
			}
		}
		if read != processes {
			t.Errorf("round %d: %d of %d after 10 s", round, read, processes)
		}
	}
}
