package analyzer

import (
	"reflect"
	"testing"

	"github.com/memtrace/memtrace/analyzer/heapwalk"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/tracer/event"
)

func TestLossesMakeSpells(t *testing.T) {
	const s = 1_000_000_000
	a := New(Config{Start: 100 * s})
	onTape(t, a)
	defer a.Close()
	a.AddProcess(ProcessInfo{PID: 1})
	a.AddProcessLoss(1, 10, 101*s, 102*s)
	a.AddProcessLoss(1, 5, 102*s+s/2, 103*s) // goes on
	a.AddProcessLoss(1, 0, 104*s, 104*s)     // nothing
	a.AddProcessLoss(1, 7, 110*s, 110*s)
	d := a.byPID[1].damage
	want := []report.LossSpan{{FromNS: 1 * s, ToNS: 3 * s, Events: 15}, {FromNS: 10 * s, ToNS: 10 * s, Events: 7}}
	if !reflect.DeepEqual(d.spans, want) || d.lost != 22 {
		t.Errorf("%d lost in %+v, want 22 in %+v", d.lost, d.spans, want)
	}
	for _, c := range []struct {
		time, freed uint64
		doubt       bool
	}{{0, 1 * s, true}, {2 * s, 2 * s, true}, {5 * s, 10 * s, true}, {10 * s, 10 * s, true}, {10*s + 1, 10*s + 1, false}} {
		b := block{addr: 16, time: c.time}
		if d.doubts(b) != c.doubt || d.freedAt(b) != c.freed {
			t.Errorf("a block of %d: doubted %v, freed at %d; want %v, %d", c.time, d.doubts(b), d.freedAt(b), c.doubt, c.freed)
		}
	}
}

// What has been looked at is in doubt again once more is lost, or where the look could not tell.
func TestVerifiedBlocksAreNotDoubted(t *testing.T) {
	d := &damage{spans: []report.LossSpan{{FromNS: 10, ToNS: 20, Events: 1}}, verified: 30, unsure: map[uint64]bool{32: true}}
	known, unsure := block{addr: 16, time: 5}, block{addr: 32, time: 5}
	if d.doubts(known) || !d.doubts(unsure) {
		t.Errorf("doubted: %v, %v", d.doubts(known), d.doubts(unsure))
	}
	d.spans[0].ToNS = 40
	if !d.doubts(known) {
		t.Error("more was lost, and a block that lived then is not in doubt")
	}
	if child := d.inherited(); !child.doubts(known) || child.lost != 0 {
		t.Error("a child's copies are not in doubt as the blocks are")
	}
	var none *damage
	if none.doubts(known) || none.inherited() != nil {
		t.Error("a block is in doubt where nothing was lost")
	}
}

// TestRepairSparesWhatIsBeingHandedOut has two blocks that the allocator's records
// call free; one of them is just being handed out.
func TestRepairSparesWhatIsBeingHandedOut(t *testing.T) {
	const s = 1_000_000_000
	a := New(Config{})
	defer a.Close()
	a.AddProcess(ProcessInfo{PID: 1})
	const freed, handed = 0x1000, 0x2000
	a.Apply([]event.Event{
		{Kind: event.Alloc, PID: 1, TID: 1, Time: s, Addr: freed, Size: 100},
		{Kind: event.Alloc, PID: 1, TID: 1, Time: s, Addr: handed, Size: 100},
	})
	a.AddProcessLoss(1, 3, 2*s, 3*s)
	r := a.NewRepair(1, 4*s)
	if r == nil || len(r.blocks) != 2 {
		t.Fatalf("in doubt: %+v, want both blocks", r)
	}
	r.Skip([]uint64{handed})
	r.states, r.looks = []heapwalk.State{heapwalk.Freed, heapwalk.Freed}, 1
	a.Repair(r)
	if done := a.Repaired(1); done != (report.Repaired{Count: 1, Bytes: 100}) {
		t.Errorf("repaired %+v, want one block", done)
	}
	p := a.byPID[1]
	if b, ok := p.heap.get(handed, p.heap.hash(handed)); !ok || !p.damage.doubts(b) {
		t.Error("the block that is being handed out does not live in doubt")
	}
	if _, ok := p.heap.get(freed, p.heap.hash(freed)); ok {
		t.Error("the block that was freed unseen lives")
	}
}

// What a process lost is not taken in before the process is known, nor as that
// of one that had its PID before.
func TestLossIsOfAKnownProcess(t *testing.T) {
	const child, at = testPID + 5, testStart + 500
	a := newFamily(t, 0)
	if a.AddProcessLoss(child, 7, at, at) {
		t.Error("the loss of a process that is not known was taken in")
	}
	tr := new(trace).fork(child, 0).malloc(0x1000, 40, 1).of(child)
	a.Apply(tr.events)
	late := testStart + tr.time
	if !a.AddProcessLoss(child, 7, at, late) || !a.AddProcessLoss(child, 0, at, late) {
		t.Error("the loss of a child was not taken in once its birth was known")
	}
	if r := a.NewRepair(child, late+1); r == nil || len(r.blocks) != 1 {
		t.Errorf("in doubt: %+v, want the block that may have been freed", r)
	}
	a.Apply(tr.kind(event.Exit).of(child).events[2:])
	if !a.AddProcessLoss(child, 1, late, testStart+tr.time) {
		t.Error("the loss of a process that has ended since was not taken in")
	}
	if a.AddProcessLoss(child, 1, late, testStart+tr.time+1) {
		t.Error("a loss after the end of a process was taken in as its own")
	}
	if p := a.byPID[child]; p.damage.lost != 8 {
		t.Errorf("%d events lost, want 8", p.damage.lost)
	}
}

// The loss of a child may come between its fork and its exec. It then still counts
// for the program that the child executed, however the child was made.
func TestLossOutlivesTheNewsOfBirthAndExec(t *testing.T) {
	const child, lost, before = testPID + 5, testStart + 9000, testStart + 10
	told := func(a *Analyzer) { a.AddProcessLoss(child, 3, lost, lost) }
	for name, c := range map[string]struct {
		flags  event.Flags
		listed int
		early  bool
	}{
		"fork": {}, "known before its fork": {early: true}, "in a crowd": {listed: 1}, "in a crowd, known before": {listed: 1, early: true},
		"vfork": {flags: event.FlagSharedVM}, "vfork, known before": {flags: event.FlagSharedVM, early: true},
		"vfork in a crowd": {flags: event.FlagSharedVM, listed: 1},
	} {
		t.Run(name, func(t *testing.T) {
			a := newFamily(t, c.listed)
			if c.early {
				a.AddProcess(ProcessInfo{PID: child})
				told(a)
			}
			tr := new(trace).fork(child, c.flags)
			a.Apply(tr.events)
			if !c.early {
				told(a)
			}
			a.Apply(tr.kind(event.Exec).of(child).malloc(0x1000, 40, 1).of(child).events[1:])
			p := a.byPID[child]
			if b, ok := p.heap.get(0x1000, p.heap.hash(0x1000)); !ok || p.info.PID != child || !p.damage.doubts(b) {
				t.Errorf("process %d, block %v: it was not said that its free may have been lost", p.info.PID, b)
			}
		})
	}
	a := newFamily(t, 0)
	a.AddProcessLoss(testPID, 3, before, before)
	a.Apply(new(trace).fork(child, event.FlagSharedVM).kind(event.Exec).of(child).events)
	if a.HasLost(child) {
		t.Error("what its parent lost before is held against a program of its own")
	}
}

func TestManySpellsAreMerged(t *testing.T) {
	const s = 1_000_000_000
	a := New(Config{})
	defer a.Close()
	a.AddProcess(ProcessInfo{PID: 1})
	for i := range uint64(1000) {
		a.AddProcessLoss(1, 2, 10*i*s, 10*i*s+1)
	}
	d := a.byPID[1].damage
	if len(d.spans) != maxLossSpans || d.lost != 2000 || d.last() != 9990*s+1 {
		t.Errorf("%d lost in %d spells until %d", d.lost, len(d.spans), d.last())
	}
}
