package analyzer

import (
	"reflect"
	"testing"

	"github.com/memtrace/memtrace/analyzer/heapwalk"
	"github.com/memtrace/memtrace/tracer/event"
)

func TestLossesMakeSpells(t *testing.T) {
	const s = 1_000_000_000
	a := New(Config{Start: 100 * s})
	defer a.Close()
	a.AddProcess(ProcessInfo{PID: 1})
	a.AddProcessLoss(1, 10, 101*s, 102*s)
	a.AddProcessLoss(1, 5, 102*s+s/2, 103*s) // goes on
	a.AddProcessLoss(1, 0, 104*s, 104*s)     // nothing
	a.AddProcessLoss(1, 7, 110*s, 110*s)
	a.AddProcessLoss(2, 7, 110*s, 110*s) // of nobody that is known
	d := a.byPID[1].damage
	want := []LossSpan{{1 * s, 3 * s, 15}, {10 * s, 10 * s, 7}}
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
	d := &damage{spans: []LossSpan{{10, 20, 1}}, verified: 30, unsure: map[uint64]bool{32: true}}
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
	r.Spare([]uint64{handed})
	r.states, r.looks = []heapwalk.State{heapwalk.Freed, heapwalk.Freed}, 1
	if done := a.Repair(r); done != (Repaired{Count: 1, Bytes: 100}) {
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
