package analyzer

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/tracer/event"
)

// story makes inputs of processes that allocate, free, fork, share memory, exec, exit, use pools and map memory.
type story struct {
	r     *rand.Rand
	time  uint64
	pids  []uint32 // with memory of their own
	next  uint32
	live  map[uint32]map[uint64]uint64 // blocks of processes that live, by address: sizes
	stack map[[2]uint64]bool           // PID and ID that were told
	give  func(input.Input)
}

func (s *story) event(e event.Event) {
	s.time += 1 + s.r.Uint64N(5000)
	e.Time, e.TID = s.time, e.PID
	s.give(&input.Events{Events: []event.Event{e}})
}

func (s *story) newStack(pid uint32) event.StackID {
	id := 1 + s.r.Uint64N(40)
	if k := [2]uint64{uint64(pid), id}; !s.stack[k] {
		s.stack[k] = true
		s.give(input.Stack{Stack: event.Stack{ID: event.StackID(id), PID: pid, Time: s.time, Frames: []uint64{id, 100, 7}, Bottom: id%2 == 0}})
	}
	return event.StackID(id)
}

func (s *story) start(pid uint32) {
	s.give(input.Started{ProcessInfo: ProcessInfo{PID: pid, Comm: fmt.Sprintf("p%d", pid), Probed: testStart}})
	s.pids = append(s.pids, pid)
	s.live[pid] = make(map[uint64]uint64)
}

func (s *story) alloc(pid uint32) {
	addr, size := 0x10000+16*s.r.Uint64N(3000), 1+s.r.Uint64N(500)
	if s.live[pid][addr] != 0 {
		return
	}
	e := event.Event{Kind: event.Alloc, PID: pid, Addr: addr, Size: size, Stack: s.newStack(pid), Child: uint32(s.r.IntN(2)) * 4096}
	if s.r.IntN(4) == 0 {
		e.Flags, e.Old = event.FlagPooled, 0x900000+0x100*s.r.Uint64N(3)
	} else {
		s.live[pid][addr] = size
	}
	s.event(e)
}

func (s *story) free(pid uint32) {
	addrs := slices.Sorted(maps.Keys(s.live[pid]))
	if len(addrs) > 0 {
		addr := addrs[s.r.IntN(len(addrs))]
		delete(s.live[pid], addr)
		s.event(event.Event{Kind: event.Free, PID: pid, Addr: addr})
	}
}

func (s *story) rare(pid uint32) {
	switch n := s.r.IntN(12); n {
	case 0:
		s.next++
		s.event(event.Event{Kind: event.Fork, PID: pid, Child: s.next})
		s.live[s.next] = maps.Clone(s.live[pid])
		s.pids = append(s.pids, s.next)
		for k := range maps.Clone(s.stack) {
			if k[0] == uint64(pid) {
				s.stack[[2]uint64{uint64(s.next), k[1]}] = true // it may name those of its parent
			}
		}
	case 1:
		s.next++
		s.event(event.Event{Kind: event.Fork, PID: pid, Child: s.next, Flags: event.FlagSharedVM})
		addr := 0x800000 + 16*s.r.Uint64N(1000)
		s.event(event.Event{Kind: event.Alloc, PID: s.next, Addr: addr, Size: 24, Stack: s.newStack(pid)})
		s.live[pid][addr] = 24
	case 2:
		s.event(event.Event{Kind: event.PoolBegin, PID: pid, Addr: 0x900000 + 0x100*s.r.Uint64N(3), Stack: s.newStack(pid)})
	case 3:
		s.event(event.Event{Kind: event.PoolChange, PID: pid, Addr: 0x900000 + 0x100*s.r.Uint64N(3), Child: uint32(event.PoolEnded)})
	case 4, 5:
		s.event(event.Event{Kind: event.Mmap, PID: pid, Addr: 0x7f0000000000 + 0x1000*s.r.Uint64N(50), Size: 0x1000 * (1 + s.r.Uint64N(5)), Stack: s.newStack(pid)})
	case 6:
		s.event(event.Event{Kind: event.Munmap, PID: pid, Addr: 0x7f0000000000 + 0x1000*s.r.Uint64N(50), Size: 0x1000 * (1 + s.r.Uint64N(5))})
	case 7:
		if len(s.pids) > 2 && s.r.IntN(3) == 0 {
			s.event(event.Event{Kind: event.Exec, PID: pid, Child: pid})
			s.live[pid] = make(map[uint64]uint64)
			maps.DeleteFunc(s.stack, func(k [2]uint64, _ bool) bool { return k[0] == uint64(pid) })
		}
	case 8:
		if len(s.pids) > 4 {
			s.event(event.Event{Kind: event.Exit, PID: pid})
			s.pids = slices.DeleteFunc(s.pids, func(p uint32) bool { return p == pid })
			delete(s.live, pid)
		}
	case 9:
		s.give(input.ProcessLoss{PID: pid, Events: 2, First: s.time - 100, Last: s.time})
	}
}

func (s *story) step() {
	pid := s.pids[s.r.IntN(len(s.pids))]
	switch n := s.r.IntN(40); {
	case n < 22:
		s.alloc(pid)
	case n < 38:
		s.free(pid)
	default:
		s.rare(pid)
	}
}

// livesOf says what lives in processes that have not exited, and where: without the numbers of sites and processes.
func livesOf(a *Analyzer) []string {
	var out []string
	for l := range a.Lives {
		if a.byPID[l.PID].exited {
			continue
		}
		s, _ := a.Site(l.Site)
		var frames []string
		for _, f := range s.Frames {
			frames = append(frames, f.Function)
		}
		out = append(out, fmt.Sprintf("%d %x %d of %d born %d since %d pool %x: %d %s", l.PID, l.Addr, l.Size, l.Interval, l.Born, l.Since,
			a.byPID[l.PID].pools.poolOf(l.Addr), s.Stack, strings.Join(frames, "<")))
	}
	for pid, p := range a.byPID {
		if p.exited || p.regions == nil {
			continue
		}
		for r := range p.regions.all {
			out = append(out, fmt.Sprintf("%d region %x-%x %d %d %d", pid, r.start, r.end, r.time, r.flags, a.regions.all[r.site].stack))
		}
	}
	slices.Sort(out)
	return out
}

// An analyzer that begins with a checkpoint knows what one that saw all of the trace knows of what lives, then and
// at each later instant.
func TestCheckpointKnowsWhatLives(t *testing.T) {
	for seed := range uint64(20) {
		full, part := New(Config{Start: testStart, FollowForks: true}), (*Analyzer)(nil)
		s := &story{r: rand.New(rand.NewPCG(seed, 1)), time: testStart + 1000, next: 100, live: map[uint32]map[uint64]uint64{}, stack: map[[2]uint64]bool{}}
		s.give = func(in input.Input) {
			full.Take(in)
			if part != nil {
				part.Take(in)
			}
		}
		s.start(1)
		s.start(2)
		for i := range 6000 {
			s.step()
			if i%1000 == 700 { // begin again from here
				if part != nil {
					part.Close()
				}
				part = New(Config{Start: testStart, FollowForks: true})
				c := full.Checkpoint(s.time)
				if err := c.Inputs(func(in input.Input) error { part.Take(input.Copy(in)); return nil }); err != nil {
					t.Fatal(err)
				}
			}
			if part != nil && i%250 == 200 {
				compareLives(t, seed, s, full, part)
			}
		}
		full.Close()
		part.Close()
	}
}

func compareLives(t *testing.T, seed uint64, s *story, full, part *Analyzer) {
	t.Helper()
	want, got := livesOf(full), livesOf(part)
	if !slices.Equal(got, want) {
		for i := range want {
			if i >= len(got) || got[i] != want[i] {
				t.Fatalf("seed %d: %d lives, want %d; the first that differs is %q, want %q", seed, len(got), len(want), got[min(i, len(got)-1)], want[i])
			}
		}
		t.Fatalf("seed %d: %d lives, want %d", seed, len(got), len(want))
	}
	for pid, blocks := range s.live { // what the program itself counts; blocks of pools aside
		p := part.byPID[pid]
		found := 0
		for addr, size := range blocks {
			if b, ok := p.heap.get(addr, p.heap.hash(addr)); ok && b.size == size {
				found++
			}
		}
		if found < len(blocks)*9/10 { // a pooled block may have come to the place of one
			t.Fatalf("seed %d: process %d: %d of %d blocks are known", seed, pid, found, len(blocks))
		}
		if full.byPID[pid].damage != nil && part.byPID[pid].damage.last() != full.byPID[pid].damage.last() {
			t.Fatalf("seed %d: process %d: losses until %d, want %d", seed, pid, part.byPID[pid].damage.last(), full.byPID[pid].damage.last())
		}
	}
}

// What is counted over time begins at the checkpoint; what lived then counts as live and not as allocated.
func TestCheckpointCountsFromThereOn(t *testing.T) {
	full := newTestAnalyzer(t)
	full.Take(input.Stack{Stack: event.Stack{ID: 5, PID: testPID, Frames: []uint64{1, 2}}})
	full.Take(&input.Events{Events: []event.Event{
		{Kind: event.Alloc, Time: testStart + 10, PID: testPID, TID: 1, Addr: 0x100, Size: 10, Stack: 5},
		{Kind: event.Alloc, Time: testStart + 20, PID: testPID, TID: 1, Addr: 0x200, Size: 20, Stack: 5},
		{Kind: event.Free, Time: testStart + 30, PID: testPID, TID: 1, Addr: 0x100},
	}})
	full.Take(input.Names{Stack: full.sites.at(0).image.stacks[5].number(), PID: testPID, ID: 5, Frames: []*input.Frame{{Function: "f", Module: "m"}, {Function: "main", Module: "m"}}})
	part := New(Config{Start: testStart})
	t.Cleanup(part.Close)
	c := full.Checkpoint(testStart + 40)
	if c.Blocks != 1 || c.Bytes != 20 {
		t.Errorf("%d blocks of %d bytes, want 1 of 20", c.Blocks, c.Bytes)
	}
	if err := c.Inputs(func(in input.Input) error { part.Take(input.Copy(in)); return nil }); err != nil {
		t.Fatal(err)
	}
	part.Take(&input.Events{Events: []event.Event{
		{Kind: event.Alloc, Time: testStart + 50, PID: testPID, TID: 1, Addr: 0x300, Size: 5, Stack: 5},
		{Kind: event.Free, Time: testStart + 60, PID: testPID, TID: 1, Addr: 0x200},
	}})
	part.Take(input.Instant{Now: testStart + 100})
	r := part.Report(ReportOptions{Final: true})
	if len(r.Sites) != 1 || r.Sites[0].Function != "f" || len(r.Sites[0].Stack) != 2 {
		t.Fatalf("sites %+v, want one of f", r.Sites)
	}
	s := r.Sites[0]
	if s.AllocCount != 1 || s.AllocBytes != 5 || s.FreeCount != 1 || s.LiveCount != 1 || s.LiveBytes != 5 || s.OldestNS != 50 {
		t.Errorf("%+v: want 1 allocation of 5 bytes, 1 free, 1 block of 5 bytes that is 50 ns old", s)
	}
}
