package analyzer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/memtrace/memtrace/analyzer/reach"
	"github.com/memtrace/memtrace/tracer/event"
)

func newFamily(t *testing.T, listed int) *Analyzer {
	t.Helper()
	a := New(Config{Start: testStart, FollowForks: true, maxListed: listed})
	onTape(t, a)
	t.Cleanup(a.Close)
	a.AddProcess(ProcessInfo{PID: testPID, Comm: "sh"})
	return a
}

// A child begins with its parent's blocks, and they end with it: what it freed
// of them and what it allocated itself is its own.
func TestForkCopiesTheHeap(t *testing.T) {
	const child = testPID + 5
	a := newFamily(t, 0)
	a.AddStack(event.Stack{ID: 7, PID: child, Frames: []uint64{0x77}}) // ahead of the fork
	a.Apply(new(trace).malloc(0x1000, 40, 1).malloc(0x2000, 60, 1).fork(child, 0).
		free(0x1000).of(child).malloc(0x3000, 5, 7).of(child).free(0x2000).events)
	checkConservation(t, a)
	parent, copied := a.processes[0].total, a.processes[1].total
	if parent.LiveBytes != 40 || copied.LiveBytes != 65 || copied.AllocCount != 1 || a.events.UnmatchedFree != 0 {
		t.Errorf("parent %+v, child %+v, %d unmatched; want 40 and 65 live bytes, 0", parent, copied, a.events.UnmatchedFree)
	}
	if _, ok := a.processes[1].image.stack(7); !ok {
		t.Error("a stack that was sent ahead of the fork is lost")
	}
	a.Apply(new(trace).kind(event.Exit).of(child).events)
	checkConservation(t, a)
	if got := a.processes[1].total; got.LiveBytes != 5 || got.LiveCount != 1 || a.inherited != 0 {
		t.Errorf("after its end the child has %+v and %d copies, want the 5 bytes that it never freed", got, a.inherited)
	}
}

// Children beyond the limit share sites by their frames; what they sum up to
// is exact, and nothing of them stays but that.
func TestChildrenInACrowd(t *testing.T) {
	const children = 100
	a := newFamily(t, 3)
	tr := new(trace).malloc(0x1000, 40, 1)
	for i := range uint32(children) {
		pid := testPID + 1 + i
		id := event.StackID(1000 + i) // ids differ from process to process
		a.AddStack(event.Stack{ID: id, PID: pid, Frames: []uint64{0xaa, 0xbb}})
		tr.fork(pid, 0).malloc(0x2000, 8, id).of(pid).malloc(0x3000, 2, id).of(pid).free(0x3000).of(pid).free(0x1000).of(pid)
		if i%10 != 0 {
			tr.kind(event.Exit).of(pid)
		}
	}
	a.Apply(tr.events)
	checkConservation(t, a)
	r := a.reportAt(testStart+9000, ReportOptions{}, nil)
	if len(r.Processes) != 4 {
		t.Fatalf("%d processes listed, want the parent, two children and the rest", len(r.Processes))
	}
	rest := r.Processes[3]
	if rest.Children != children-2 || rest.PID != testPID || rest.Heap.AllocCount != 2*(children-2) || rest.Heap.AllocBytes != 10*(children-2) {
		t.Errorf("the rest is %+v, want %d children with two blocks of 10 bytes each", rest, children-2)
	}
	if want := uint64(8 * 9); rest.Heap.LiveBytes != want { // 10, 20 … 90 live; 0 is listed
		t.Errorf("the living have %d bytes, want %d", rest.Heap.LiveBytes, want)
	}
	if n := len(a.childGroups[a.processes[0]].members); n != 9 {
		t.Errorf("%d processes kept, want the 9 that live", n)
	}
	if len(r.Sites) > 8 {
		t.Errorf("%d sites, want a few that all children share", len(r.Sites))
	}
	if a.events.UnmatchedFree != 0 {
		t.Errorf("%d frees unmatched, want none", a.events.UnmatchedFree)
	}
}

// What was found in children beyond the limit is reported after their ends, too,
// summed up by site and kind, and no check takes the place of another's.
func TestVerdictsInACrowd(t *testing.T) {
	const children, alive = 20, 3
	a := newFamily(t, 1)
	for i := range uint32(children) {
		pid := testPID + 1 + i
		id := event.StackID(1000 + i)
		a.AddStack(event.Stack{ID: id, PID: pid, Frames: []uint64{0xaa, 0xbb}})
		a.Apply(new(trace).fork(pid, 0).malloc(0x2000, 8, id).of(pid).malloc(0x3000, 2, id).of(pid).events)
		concludeLeaked(t, a, pid, map[uint64]reach.Kind{0x2000: reach.Definite, 0x3000: reach.Indirect})
		if i >= alive {
			a.Apply(new(trace).kind(event.Exit).of(pid).events)
		}
	}
	concludeLeaked(t, a, testPID+1, map[uint64]reach.Kind{0x2000: reach.Definite, 0x3000: reach.Indirect}) // once more
	r := a.reportAt(testStart+9000, ReportOptions{Top: 1}, nil)
	want := map[string]uint64{"definite": 8 * children, "indirect": 2 * children}
	for _, l := range r.Leaks {
		if l.Bytes != want[l.Kind] || l.Count != children || l.PID != testPID {
			t.Errorf("%+v, want %d bytes in %d blocks under the parent's PID", l, want[l.Kind], children)
		}
		if s := r.Site(l.Site); s == nil || s.PID != l.PID || len(s.Stack) != 2 {
			t.Errorf("the site of %+v is %+v, want one with a stack", l, s)
		}
		delete(want, l.Kind)
	}
	if len(want) != 0 {
		t.Errorf("leaks %+v lack %v", r.Leaks, want)
	}
	if n := len(a.childGroups[a.processes[0]].leaks.leaks); n != 2 {
		t.Errorf("%d verdicts are kept of those that ended, want one a site and kind", n)
	}
}

// The verdicts on a child of a group end with the program that they are on.
func TestExecInACrowdDropsVerdicts(t *testing.T) {
	const child = testPID + 5
	a := newFamily(t, 1)
	a.Apply(new(trace).fork(child, 0).malloc(0x2000, 6, 1).of(child).events)
	concludeLeaked(t, a, child, map[uint64]reach.Kind{0x2000: reach.Definite})
	if n := len(a.reportAt(testStart+9000, ReportOptions{}, nil).Leaks); n != 1 {
		t.Fatalf("%d leaks before the exec, want 1", n)
	}
	a.Apply(new(trace).kind(event.Exec).of(child).events)
	if leaks := a.reportAt(testStart+9000, ReportOptions{}, nil).Leaks; len(leaks) != 0 {
		t.Errorf("after the exec there are %+v", leaks)
	}
}

// concludeLeaked ends a check of a process whose scan found these blocks leaked.
func concludeLeaked(t *testing.T, a *Analyzer, pid uint32, kinds map[uint64]reach.Kind) {
	t.Helper()
	c, err := a.NewCheck(pid)
	if err != nil {
		t.Fatal(err)
	}
	c.scans, c.began, c.still = 1, maxTime, true
	for addr, kind := range kinds {
		b, ok := c.proc.heap.get(addr, c.proc.heap.hash(addr))
		if !ok {
			t.Fatalf("process %d has no block at %#x", pid, addr)
		}
		c.leaks = append(c.leaks, reach.Leak{Addr: addr, Size: b.size, Site: uint32(b.site), Kind: kind})
	}
	slices.SortFunc(c.leaks, func(x, y reach.Leak) int { return cmp.Compare(x.Addr, y.Addr) })
	a.Conclude(c)
}

// A child that executes a program is nobody's copy any more, and its stacks
// are not confused with those of other children.
func TestExecInACrowd(t *testing.T) {
	const child = testPID + 5
	a := newFamily(t, 1)
	a.AddStack(event.Stack{ID: 1, PID: child, Frames: []uint64{0xaa}})
	a.Apply(new(trace).malloc(0x1000, 40, 1).fork(child, 0).malloc(0x2000, 6, 1).of(child).kind(event.Exec).of(child).
		malloc(0x1000, 7, 2).of(child).events)
	checkConservation(t, a)
	if h := a.reportAt(testStart+9000, ReportOptions{}, nil).Processes[1].Heap; h.LiveBytes != 7 || h.AllocCount != 2 {
		t.Errorf("the crowd has %+v, want 7 live bytes and 2 allocations", h)
	}
	a.Apply(new(trace).kind(event.Exit).of(child).events)
	checkConservation(t, a)
	if a.inherited != 0 {
		t.Errorf("%d copies counted, want 0", a.inherited)
	}
}

// A child that would need too many copies has blocks from before instead.
func TestTooManyCopies(t *testing.T) {
	a := newFamily(t, 0)
	a.inherited = maxInheritedAll
	a.Apply(new(trace).malloc(0x1000, 40, 1).fork(testPID+5, 0).events)
	if p := a.processes[1]; !p.info.Attached || p.heap.count != 0 {
		t.Errorf("attached %v with %d blocks, want blocks from before, none of them known", p.info.Attached, p.heap.count)
	}
}

// Who describes such a child, or a child of it, saw its probes, and not that it
// has blocks from before; until it executes a program, not all of it was seen.
func TestChildWithoutCopiesIsNotSeenWhole(t *testing.T) {
	const child, grandchild = testPID + 5, testPID + 6
	a := newFamily(t, 0)
	a.inherited = maxInheritedAll
	a.Apply(new(trace).malloc(0x1000, 40, 1).fork(child, 0).events)
	a.inherited = 0 // there is room for what is known of the child
	a.Apply(new(trace).malloc(0x2000, 8, 1).of(child).fork(grandchild, 0).of(child).events)
	a.Describe(ProcessInfo{PID: child})
	a.AddProcess(ProcessInfo{PID: grandchild})
	for _, pid := range []uint32{child, grandchild} {
		if info, _ := a.Info(pid); !info.Attached || a.sawAll(a.byPID[pid]) {
			t.Errorf("process %d: attached %v, seen whole %v; its parent's block is in its memory", pid, info.Attached, a.sawAll(a.byPID[pid]))
		}
	}
	if !a.sawAll(a.byPID[testPID]) {
		t.Error("the parent, which has all of its blocks, was not seen whole")
	}
	a.Apply(new(trace).kind(event.Exec).of(child).events)
	a.Describe(ProcessInfo{PID: child})
	if info, _ := a.Info(child); info.Attached || !a.sawAll(a.byPID[child]) {
		t.Errorf("attached %v after it executed a program", info.Attached)
	}
}

func TestDescribe(t *testing.T) {
	const child = testPID + 5
	a := newFamily(t, 0)
	a.Apply(new(trace).fork(child, 0).kind(event.Exit).of(child).events)
	a.Describe(ProcessInfo{PID: child, Comm: "late"})
	a.Describe(ProcessInfo{PID: child + 1, Comm: "stranger"})
	if len(a.processes) != 2 || a.processes[1].info.Comm != "late" {
		t.Errorf("%d processes, want two, the ended child described", len(a.processes))
	}
	a.Apply(new(trace).fork(child+2, event.FlagSharedVM).events)
	a.Describe(ProcessInfo{PID: child + 2, Comm: "spawned"})
	a.Apply(new(trace).kind(event.Exec).of(child+2).malloc(0x1000, 3, 1).of(child + 2).events)
	if p := a.processes[len(a.processes)-1]; p.info.Comm != "spawned" || p.total.LiveBytes != 3 {
		t.Errorf("the last process is %+v with %d bytes, want the spawned one with 3", p.info, p.total.LiveBytes)
	}
}

// The entries of a Report are told apart also where they stand under one PID: a
// process that got another's, and children that are summed up under their parent's.
func TestEntriesOfOnePID(t *testing.T) {
	const child = testPID + 1
	a := newFamily(t, 3)
	tr := new(trace).malloc(0x1000, 40, 1)
	for range 4 { // of which two are listed
		tr.fork(child, 0).malloc(0x2000, 8, 2).of(child).kind(event.Exit).of(child)
	}
	a.Apply(tr.kind(event.Exec).events)
	r := a.reportAt(testStart+9000, ReportOptions{}, nil)
	var got []string
	for _, p := range r.Processes {
		got = append(got, fmt.Sprint(p.ID, p.PID, p.Children, p.Execs))
	}
	want := []string{"1 100 0 1", "2 101 0 0", "3 101 0 0", "4 100 2 0"}
	if !slices.Equal(got, want) {
		t.Errorf("ID, PID, children and execs are %q, want %q", got, want)
	}
	of := map[int]uint64{}
	for _, s := range r.Sites {
		of[s.Process] += s.AllocCount
	}
	if want := (map[int]uint64{1: 1, 2: 1, 3: 1, 4: 2}); !maps.Equal(of, want) {
		t.Errorf("allocations by process are %v, want %v", of, want)
	}
}

// The greatest peak of children that are summed up comes with its time, whether
// that child lives or has ended: a limit after a warm-up goes by it.
func TestPeakInACrowd(t *testing.T) {
	const ended, alive = testPID + 1, testPID + 2
	a := newFamily(t, 1)
	a.Apply(new(trace).fork(ended, 0).malloc(0x1000, 5, 1).of(ended).kind(event.Exit).of(ended).
		fork(alive, 0).malloc(0x1000, 4, 1).of(alive).malloc(0x2000, 4, 1).of(alive).events)
	if h := a.reportAt(testStart+9000, ReportOptions{}, nil).Processes[1].Heap; h.PeakBytes != 8 || h.PeakAtNS != 6000 {
		t.Errorf("the peak is %d at %d, want 8 at 6000", h.PeakBytes, h.PeakAtNS)
	}
}
