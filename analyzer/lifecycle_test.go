package analyzer

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/tracer/event"
)

func (t *trace) of(pid uint32) *trace {
	e := &t.events[len(t.events)-1]
	e.PID, e.TID = pid, pid
	return t
}

func (t *trace) fork(child uint32, flags event.Flags) *trace {
	return t.add(event.Event{Kind: event.Fork, Child: child, Flags: flags})
}

func TestExecStartsAfresh(t *testing.T) {
	a := newTestAnalyzer(t)
	a.Apply(new(trace).malloc(0x1000, 40, 1).malloc(0x2000, 60, 1).free(0x1000).
		kind(event.Exec).malloc(0x2000, 7, 1).events)
	checkConservation(t, a)
	if a.events.Overwritten != 0 {
		t.Errorf("%d blocks overwritten: those of the image before are gone", a.events.Overwritten)
	}
	if n := a.sites.used; n != 2 {
		t.Fatalf("%d sites, want one of each image", n)
	}
	before, after := a.sites.at(0), a.sites.at(1)
	if got, want := countsOf(before), (siteCounts{0, 0, 2, 100, 1, 0, 100}); got != want || before.gone != 1 {
		t.Errorf("site of the first image %+v, %d gone; want %+v, 1", got, before.gone, want)
	}
	if got, want := countsOf(after), (siteCounts{1, 7, 1, 7, 0, 0, 7}); got != want {
		t.Errorf("site of the second image %+v, want %+v", got, want)
	}
	if h := a.processes[0].total; h.AllocCount != 1 || h.LiveBytes != 7 || h.PeakBytes != 7 {
		t.Errorf("heap %+v, want that of the second image alone", h)
	}
}

// Whether a program has an allocator that can be probed says nothing of the next.
func TestExecForgetsThatNothingWasProbed(t *testing.T) {
	for _, shared := range []event.Flags{0, event.FlagSharedVM} {
		a := New(Config{FollowForks: true})
		a.AddProcess(ProcessInfo{PID: 1, Unprobed: true})
		a.Apply([]event.Event{{Kind: event.Fork, PID: 1, Child: 2, Time: 1, Flags: shared}, {Kind: event.Exec, PID: 2, Child: 2, Time: 2}})
		r := a.reportAt(3, ReportOptions{}, nil)
		if len(r.Processes) != 2 || !r.Processes[0].Unprobed || r.Processes[1].Unprobed {
			t.Errorf("shared %v: %+v", shared, r.Processes)
		}
	}
}

func TestExitKeepsLiveBlocks(t *testing.T) {
	a := newTestAnalyzer(t)
	a.Apply(new(trace).malloc(0x1000, 40, 1).kind(event.Exit).events)
	a.SetExitCode(testPID, 3)
	p := a.reportAt(testStart+9000, ReportOptions{}, nil).Processes[0]
	if !p.Exited || p.ExitCode == nil || *p.ExitCode != 3 || p.Heap.LiveBytes != 40 {
		t.Errorf("process %+v, want exited with 3 and 40 live bytes", p)
	}
	a.AddProcess(ProcessInfo{PID: testPID, Comm: "next"}) // its PID is used again
	a.Apply(new(trace).malloc(0x1000, 8, 1).events)
	r := a.reportAt(testStart+9000, ReportOptions{}, nil)
	if len(r.Processes) != 2 || r.Processes[0].Heap.LiveBytes != 40 || r.Processes[1].Heap.LiveBytes != 8 {
		t.Errorf("processes %+v, want the ended one and the new one", r.Processes)
	}
}

// TestSharedVM has a vfork child allocate and free in its parent's heap, then
// exec: the parent keeps its blocks, and the child starts with none.
func TestSharedVM(t *testing.T) {
	const child = testPID + 5
	for _, known := range []string{"before its fork", "before its exec", "after its exec"} {
		t.Run("child known "+known, func(t *testing.T) {
			a := newTestAnalyzer(t)
			add := func(when string) {
				if when == known {
					a.AddProcess(ProcessInfo{PID: child, Comm: "child"})
				}
			}
			add("before its fork")
			a.Apply(new(trace).malloc(0x1000, 40, 1).malloc(0x3000, 5, 1).fork(child, event.FlagSharedVM).
				free(0x1000).of(child).malloc(0x2000, 60, 2).of(child).events)
			add("before its exec")
			if h := a.processes[0].total; len(a.processes) != 1 || h.LiveBytes != 65 || h.FreeCount != 1 {
				t.Errorf("%d processes, parent's heap %+v; want one with 65 live bytes and 1 free", len(a.processes), h)
			}
			a.AddStack(event.Stack{ID: 9, PID: child, Frames: []uint64{0xabc}})
			a.Apply(new(trace).kind(event.Exec).of(child).events)
			add("after its exec")
			a.Apply(new(trace).malloc(0x1000, 8, 9).of(child).events)
			checkConservation(t, a)
			if len(a.processes) != 2 || a.processes[0].total.LiveBytes != 65 || a.processes[1].total.LiveBytes != 8 {
				t.Fatalf("%d processes after exec, want a parent with 65 live bytes and a child with 8", len(a.processes))
			}
			if _, ok := a.processes[1].image.stack(9); !ok {
				t.Error("a stack that was sent ahead of the exec is lost")
			}
		})
	}
}

// A child that is told of before its fork is read, as one that loads code may be on a busy machine, keeps the stacks
// that were sent before the fork, whether it has a memory of its own or not.
func TestStacksBeforeAFork(t *testing.T) {
	const child = testPID + 5
	for name, flags := range map[string]event.Flags{"fork": 0, "vfork": event.FlagSharedVM} {
		for _, sent := range []string{"before", "after"} {
			t.Run(name+", stack sent "+sent+" it is told of", func(t *testing.T) {
				a := New(Config{Start: testStart, FollowForks: true})
				t.Cleanup(a.Close)
				a.AddProcess(ProcessInfo{PID: testPID})
				stack := event.Stack{ID: 9, PID: child, Frames: []uint64{0xabc}}
				if sent == "before" {
					a.AddStack(stack)
				}
				a.AddProcess(ProcessInfo{PID: child})
				if sent == "after" {
					a.AddStack(stack)
				}
				a.Apply(new(trace).fork(child, flags).malloc(0x2000, 60, 9).of(child).events)
				if _, ok := a.byPID[child].image.stack(9); !ok {
					t.Error("the stack is lost")
				}
			})
		}
	}
}

func TestSharedVMEndsWithChild(t *testing.T) {
	const child = testPID + 5
	a := newTestAnalyzer(t)
	a.Apply(new(trace).fork(child, event.FlagSharedVM).malloc(0x2000, 60, 2).of(child).kind(event.Exit).of(child).
		malloc(0x4000, 1, 1).events)
	if p := a.processes[0]; p.exited || p.total.LiveBytes != 61 {
		t.Errorf("parent exited: %v, %d live bytes; want running with 61", p.exited, p.total.LiveBytes)
	}
	a.Apply(new(trace).malloc(0x5000, 1, 1).of(child).events)
	if a.unknownProcessEvents != 1 || a.processes[0].total.LiveBytes != 61 {
		t.Errorf("%d events of unknown processes, want the one of a new process of that PID", a.unknownProcessEvents)
	}
}

func TestPlainForkIsNotFollowed(t *testing.T) {
	a := newTestAnalyzer(t)
	a.Apply(new(trace).malloc(0x1000, 40, 1).fork(testPID+5, 0).free(0x1000).of(testPID + 5).events)
	if h := a.processes[0].total; h.LiveBytes != 40 || a.unknownProcessEvents != 1 {
		t.Errorf("live bytes %d, %d events of unknown processes; want 40, 1", h.LiveBytes, a.unknownProcessEvents)
	}
}

func TestCloneProcess(t *testing.T) {
	const child = testPID + 5
	a := newTestAnalyzer(t)
	a.AddStack(event.Stack{ID: 1, PID: testPID, Frames: []uint64{0x42}})
	a.Apply(new(trace).malloc(0x1000, 40, 1).malloc(0x2000, 60, 2).free(0x1000).malloc(0x1000, 41, 1).fork(child, 0).events)
	a.AddProcess(ProcessInfo{PID: child, Comm: "child"})
	offTape(a)
	if err := a.clone(a.byPID[testPID], child, 0); err != nil {
		t.Fatal(err)
	}
	if n := len(a.processes); n != 2 || a.processes[1].info.Comm != "child" {
		t.Fatalf("%d processes after the fork, want the parent and the child", n)
	}
	a.Apply(new(trace).free(0x1000).of(child).free(0x2000).malloc(0x3000, 1, 1).of(child).events)
	checkConservation(t, a)
	parent, copied := a.processes[0].total, a.processes[1].total
	if parent.LiveBytes != 41 || parent.FreeCount != 2 || a.events.UnmatchedFree != 0 {
		t.Errorf("parent's heap %+v, %d frees unmatched; want 41 live bytes, 2 frees, 0", parent, a.events.UnmatchedFree)
	}
	if copied.LiveBytes != 61 || copied.AllocCount != 1 || copied.FreeCount != 1 || copied.PeakBytes != 101 {
		t.Errorf("child's heap %+v; want 61 live bytes of 1 allocation, 1 free, peak 101", copied)
	}
	r := a.reportAt(testStart+9000, ReportOptions{}, nil)
	i := slices.IndexFunc(r.Sites, func(s report.Site) bool { return s.PID == child && s.AllocCount == 1 })
	if i < 0 || len(r.Sites[i].Stack) != 1 {
		t.Errorf("sites %+v: the child's site lacks the stack that was sent for its parent", r.Sites)
	}
}

func TestFaults(t *testing.T) {
	fault := func(addr uint64, flags event.Flags) event.Event {
		return event.Event{Kind: event.Fault, Addr: addr, Flags: flags}
	}
	var tr trace
	tr.add(fault(0x10010, 0)) // inside calloc, ahead of its event
	tr.malloc(0x10000, 0x3000, 1).malloc(0x20000, 0x2000, 2)
	tr.add(fault(0x12fff, 0)).add(fault(0x13000, 0)) // the last byte, and the first behind
	tr.add(fault(0x21000, event.FaultMajor))
	tr.add(fault(0x7fff0000, event.PrevFaultMajor|event.FaultMajor)) // a stack
	tr.add(fault(0x20008, event.PrevFaultMajor))
	tr.free(0x10000)
	a := newTestAnalyzer(t)
	a.Apply(tr.events)
	if s := a.sites.at(0); s.faults != 2 {
		t.Errorf("freed block's site has %d faults, want 2", s.faults)
	}
	r := a.reportAt(testStart+20_000, ReportOptions{Sort: "faults"}, nil)
	if r.Sites[0].Faults != 2 || r.Sites[1].Faults != 2 {
		t.Errorf("sites %+v, want two faults each", r.Sites)
	}
	// Six faults: two are major by their own flag. The fifth says that the
	// fourth was major, which was counted so; sources set one flag or the other.
	if e := r.Events; e.FaultMinor+e.FaultMajor != 6 {
		t.Errorf("%d minor and %d major faults, want 6 in all", e.FaultMinor, e.FaultMajor)
	}
	if r.Events.FaultUnattributed != 0 {
		t.Errorf("%d faults given up, want none before the second survey", r.Events.FaultUnattributed)
	}
	if r = a.reportAt(testStart+21_000, ReportOptions{}, nil); r.Events.FaultUnattributed != 2 {
		t.Errorf("%d faults given up, want the stack's and the one behind the block", r.Events.FaultUnattributed)
	}
}

func TestPrevFaultMajorMovesOne(t *testing.T) {
	a := newTestAnalyzer(t)
	var tr trace
	tr.kind(event.Fault).kind(event.Fault)
	tr.add(event.Event{Kind: event.Fault, Flags: event.PrevFaultMajor})
	a.Apply(tr.events)
	if a.events.FaultMinor != 2 || a.events.FaultMajor != 1 {
		t.Errorf("%d minor, %d major; want 2, 1", a.events.FaultMinor, a.events.FaultMajor)
	}
}

// TestTooManyFaults sees that the faults that wait are bounded, and none is
// lost without being counted.
func TestTooManyFaults(t *testing.T) {
	a := newTestAnalyzer(t)
	for i := range uint64(maxPending + 10) {
		a.Apply([]event.Event{{Kind: event.Fault, PID: testPID, Addr: i << 12}})
	}
	p := a.processes[0]
	if p.faults.count != 10 || a.events.FaultUnattributed != maxPending {
		t.Errorf("%d faults wait, %d were given up; want 10, %d", p.faults.count, a.events.FaultUnattributed, maxPending)
	}
}

// TestTooManySites counts what is beyond the limit under one site an image.
func TestTooManySites(t *testing.T) {
	a := New(Config{Start: testStart, maxSites: 3})
	onTape(t, a)
	defer a.Close()
	a.AddProcess(ProcessInfo{PID: testPID})
	var tr trace
	for i := range uint64(10) {
		tr.malloc(0x1000*(i+1), 100, event.StackID(i+1))
	}
	a.Apply(tr.events)
	checkConservation(t, a)
	r := a.reportAt(testStart+20_000, ReportOptions{}, nil)
	if len(r.Sites) != 4 || r.Sites[0].LiveBytes != 700 || r.Sites[0].Function != "[all other sites]" {
		t.Errorf("sites %+v, want three and one for the other seven", r.Sites)
	}
	if len(r.Warnings) != 1 {
		t.Errorf("warnings %q, want one", r.Warnings)
	}
	a.Apply(new(trace).kind(event.Exec).events)
	checkConservation(t, a)
}

// Events of many processes, among them such as change which process an ID means,
// come to the same in one piece as one by one.
func TestPiecesDoNotMatter(t *testing.T) {
	const first, pids = 100, 40
	r := rand.New(rand.NewPCG(8, 9))
	events := new(trace)
	for range 60_000 {
		pid := first + r.Uint32N(pids)
		addr := 0x1000 + 16*r.Uint64N(300)
		switch k := r.IntN(200); {
		case k < 100:
			events.malloc(addr, 1+r.Uint64N(99), event.StackID(1+r.Uint64N(5)))
		case k < 180:
			events.free(addr)
		case k < 196:
			events.realloc(addr, addr+16, 7, 1, 500)
		case k == 196:
			events.kind(event.Exit)
		case k == 197:
			events.kind(event.Exec)
			events.events[len(events.events)-1].Child = pid
		default:
			events.fork(first+r.Uint32N(pids), event.Flags(r.IntN(2))*event.FlagSharedVM)
		}
		events.of(pid)
	}
	apply := func(pieces int) *report.Report {
		a := New(Config{Start: testStart, FollowForks: true})
		defer a.Close()
		for pid := range uint32(pids / 2) {
			a.AddProcess(ProcessInfo{PID: first + pid})
		}
		for piece := range slices.Chunk(events.events, len(events.events)/pieces) {
			a.Apply(piece)
		}
		checkConservation(t, a)
		return a.reportAt(testStart+events.time, ReportOptions{}, nil)
	}
	want, got := apply(len(events.events)), apply(1)
	if len(want.Processes) < pids || want.Events.Free == 0 || want.Events.UnmatchedFree == 0 {
		t.Fatalf("the events do too little: %d processes, %+v", len(want.Processes), want.Events)
	}
	if got.Events != want.Events || len(got.Processes) != len(want.Processes) {
		t.Fatalf("in one piece %d processes, %+v\none by one %d, %+v", len(got.Processes), got.Events, len(want.Processes), want.Events)
	}
	for i, p := range got.Processes {
		if !reflect.DeepEqual(p, want.Processes[i]) {
			t.Errorf("in one piece %+v, one by one %+v", p, want.Processes[i])
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Error("the Reports differ, in their sites perhaps: by what a heap's random keys are?")
	}
}

// TestEndedAtLeavesOutWhatWasTold: a process is left out once a Report has had it as ended, and not before.
func TestEndedAtLeavesOutWhatWasTold(t *testing.T) {
	const child = testPID + 5
	a := newFamily(t, 0)
	a.Apply(new(trace).malloc(0x1000, 40, 1).fork(child, 0).malloc(0x2000, 8, 1).of(child).events)
	sitesOf := func(at, ended uint64) (pids []int) {
		r := a.reportAt(testStart+at, ReportOptions{EndedAt: ended}, nil)
		for i := range r.Sites {
			pids = append(pids, r.Sites[i].PID)
		}
		if len(r.Processes) != 2 {
			t.Errorf("%d processes", len(r.Processes))
		}
		slices.Sort(pids)
		return pids
	}
	both, one := []int{testPID, child}, []int{testPID}
	for _, step := range []struct {
		at, ended uint64
		exits     bool
		want      []int
	}{
		{9000, 0, true, both},
		{10_000, 9000, false, both}, // the Report of then did not know it yet
		{11_000, 10_000, false, one},
		{12_000, 11_000, false, one},
		{13_000, 9000, false, both}, // those since then were not told
		{14_000, 0, false, both},
	} {
		if got := sitesOf(step.at, step.ended); !slices.Equal(got, step.want) {
			t.Errorf("at %d, ended at %d: sites of %v, want %v", step.at, step.ended, got, step.want)
		}
		if step.exits {
			a.Apply(new(trace).kind(event.Exit).of(child).events)
		}
	}
}
