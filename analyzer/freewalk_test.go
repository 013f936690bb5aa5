package analyzer

import (
	"reflect"
	"testing"

	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/tracer/event"
)

// unseenFrees makes an analyzer of a process without a probe on free, with a block at each address and time.
func unseenFrees(t *testing.T, blocks map[uint64]uint64) *Analyzer {
	t.Helper()
	a := New(Config{Start: testStart, FollowForks: true})
	t.Cleanup(a.Close)
	onTape(t, a)
	a.AddProcess(ProcessInfo{PID: testPID, FreesUnseen: true})
	for addr, time := range blocks {
		a.Apply([]event.Event{{Kind: event.Alloc, PID: testPID, TID: testPID, Time: testStart + time, Addr: addr, Size: 100}})
	}
	return a
}

func (a *Analyzer) walk(began uint64, freed, unsure []uint64) {
	for _, in := range input.FreeWalks(input.FreeWalk{PID: testPID, Began: testStart + began, TookNS: 7, Still: true}, freed, unsure) {
		a.Take(in)
	}
}

// A walk ends blocks from before it, and leaves those alone that came to their places since. What it could not tell, and
// what is newer, is in doubt.
func TestFreeWalk(t *testing.T) {
	a := unseenFrees(t, map[uint64]uint64{0x1000: 10, 0x2000: 10, 0x3000: 10, 0x4000: 50})
	a.walk(40, []uint64{0x1000, 0x4000, 0x9000}, []uint64{0x2000})
	p := a.byPID[testPID]
	if p.total.LiveCount != 3 || p.total.FreeCount != 1 || p.total.LiveBytes != 300 {
		t.Errorf("%d blocks live, %d freed", p.total.LiveCount, p.total.FreeCount)
	}
	f := p.freeWalkReport()
	if f.Walks != 1 || f.WalkedNS != 40 || f.TookNS != 7 || !f.Still || f.Freed != 1 || f.UnsureCount != 1 || f.NewerCount != 1 || f.NewerBytes != 100 || f.SeenSinceNS != 0 {
		t.Errorf("%+v", f)
	}
	if got := p.total; got.PeakBytes != 300 || got.PeakAtNS != 40 || got.TemporaryCount != 0 {
		t.Errorf("%+v", got)
	}
	a.walk(60, []uint64{0x2000}, nil)
	if n, _ := p.freeWalkReport().Doubtful(); n != 0 || p.total.LiveCount != 2 {
		t.Errorf("%d blocks in doubt, %d live, after a walk that could tell", n, p.total.LiveCount)
	}
}

// A block whose address is given out again is gone, and nothing was lost. So is one that realloc has moved.
func TestReuseIsAFreeUnseen(t *testing.T) {
	a := unseenFrees(t, map[uint64]uint64{0x1000: 10, 0x2000: 10})
	a.Apply([]event.Event{
		{Kind: event.Alloc, PID: testPID, TID: testPID, Time: testStart + 20, Addr: 0x1000, Size: 50},
		{Kind: event.Realloc, PID: testPID, TID: testPID, Time: testStart + 30, Began: testStart + 29, Old: 0x2000, Addr: 0x3000, Size: 60},
		{Kind: event.Realloc, PID: testPID, TID: testPID, Time: testStart + 40, Began: testStart + 15, Old: 0x1000, Addr: 0x5000, Size: 70},
	})
	p := a.byPID[testPID]
	if p.total.LiveCount != 3 || p.total.LiveBytes != 180 || p.total.FreeCount != 2 || a.events.Overwritten != 0 || a.events.UnmatchedFree != 0 {
		t.Errorf("%+v, %d overwritten, %d unmatched", p.total, a.events.Overwritten, a.events.UnmatchedFree)
	}
}

// Where free gets a probe after all, blocks from before stay in doubt, and those from after never are.
func TestFreesThatAreSeenAgain(t *testing.T) {
	a := unseenFrees(t, map[uint64]uint64{0x1000: 10})
	a.Take(input.Described{ProcessInfo: ProcessInfo{PID: testPID}})
	a.Apply([]event.Event{{Kind: event.Alloc, PID: testPID, TID: testPID, Time: testStart + 20, Addr: 0x2000, Size: 100}})
	p := a.byPID[testPID]
	if f := p.freeWalkReport(); f == nil || f.NewerCount != 1 || f.SeenSinceNS == 0 {
		t.Errorf("%+v", f)
	}
	a.walk(30, []uint64{0x1000}, nil) // of somebody who does not know yet
	if p.total.LiveCount != 2 {
		t.Errorf("%d blocks live", p.total.LiveCount)
	}
}

// A forked child has its parent's doubts, and walks of its own.
func TestChildOfUnseenFrees(t *testing.T) {
	a := unseenFrees(t, map[uint64]uint64{0x1000: 10, 0x2000: 50})
	a.walk(40, nil, []uint64{0x1000})
	const child = testPID + 1
	a.Apply([]event.Event{{Kind: event.Fork, PID: testPID, TID: testPID, Time: testStart + 60, Child: child}})
	a.AddProcess(ProcessInfo{PID: child, FreesUnseen: true})
	p := a.byPID[child]
	if f := p.freeWalkReport(); f == nil || f.UnsureCount != 1 || f.NewerCount != 1 {
		t.Errorf("%+v", f)
	}
	a.Take(input.FreeWalk{PID: child, Began: testStart + 70, Freed: []uint64{0x1000}})
	if p.total.LiveCount != 1 || a.byPID[testPID].total.LiveCount != 2 {
		t.Errorf("%d blocks live in the child, %d in its parent", p.total.LiveCount, a.byPID[testPID].total.LiveCount)
	}
}

// An analyzer that begins with a checkpoint doubts the blocks that one doubts that saw all of the trace, and
// counts the looks that were.
func TestCheckpointCarriesFreeWalks(t *testing.T) {
	for name, goOn := range map[string]func(a *Analyzer){
		"unseen": func(*Analyzer) {},
		"seen again": func(a *Analyzer) {
			a.Take(input.Described{ProcessInfo: ProcessInfo{PID: testPID}})
			a.Apply([]event.Event{
				{Kind: event.Alloc, PID: testPID, TID: testPID, Time: testStart + 80, Addr: 0x5000, Size: 100},
			})
		},
		"looked at again": func(a *Analyzer) { a.walk(70, nil, []uint64{0x2000}) },
	} {
		t.Run(name, func(t *testing.T) {
			full := unseenFrees(t, map[uint64]uint64{0x1000: 10, 0x2000: 10, 0x3000: 10, 0x4000: 60})
			full.walk(30, []uint64{0x1000}, nil)
			full.walk(50, nil, []uint64{0x2000})
			goOn(full)
			part := New(Config{Start: testStart})
			t.Cleanup(part.Close)
			give := func(in input.Input) error { part.Take(input.Copy(in)); return nil }
			if err := full.Checkpoint(testStart + 100).Inputs(give); err != nil {
				t.Fatal(err)
			}
			want, got := full.byPID[testPID].freeWalkReport(), part.byPID[testPID].freeWalkReport()
			want.Freed = 0 // which is counted from the checkpoint on, as frees are
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%+v, want %+v", got, want)
			}
			for _, addr := range []uint64{0x2000, 0x3000, 0x4000} {
				doubts := func(a *Analyzer) bool {
					p := a.byPID[testPID]
					b, _ := p.heap.get(addr, p.heap.hash(addr))
					return p.doubts(b)
				}
				if doubts(part) != doubts(full) {
					t.Errorf("block %#x is in doubt: %v, want %v", addr, doubts(part), doubts(full))
				}
			}
		})
	}
}

// Many addresses come in several inputs, which are one walk.
func TestFreeWalksOfManyBlocks(t *testing.T) {
	addrs := make([]uint64, 1<<20+3)
	for i := range addrs {
		addrs[i] = 0x1000 + 16*uint64(i)
	}
	parts := input.FreeWalks(input.FreeWalk{PID: 1}, addrs, addrs[:5])
	var got []uint64
	for i, in := range parts {
		var addr uint64
		for _, step := range in.Freed {
			addr += step
			got = append(got, addr)
		}
		if in.More != (i < len(parts)-1) {
			t.Errorf("part %d of %d: more %v", i, len(parts), in.More)
		}
	}
	if len(parts) != 3 || len(got) != len(addrs) || got[len(got)-1] != addrs[len(addrs)-1] || len(parts[0].Unsure) != 5 {
		t.Errorf("%d parts, %d addresses", len(parts), len(got))
	}
}
