package analyzer

import (
	"runtime"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/tracer/event"
)

// everyStackNew has a process allocate n blocks of 16 bytes from a new stack of 60
// frames each, and free all but every tenth.
func everyStackNew(a *Analyzer, pid uint32, n int) {
	frames := make([]uint64, 60)
	for i := range n {
		id := event.StackID(i + 1)
		for k := range frames {
			frames[k] = 0x400000 + uint64(i)>>(k%32)
		}
		a.AddStack(event.Stack{ID: id, PID: pid, Frames: frames})
		addr, at := 0x7f0000000000+uint64(i)*16, uint64(i+1)*1000
		a.Apply([]event.Event{{Kind: event.Alloc, PID: pid, TID: pid, Addr: addr, Size: 16, Stack: id, Time: at}})
		if i%10 != 0 {
			a.Apply([]event.Event{{Kind: event.Free, PID: pid, TID: pid, Addr: addr, Time: at + 1}})
		}
	}
}

func inUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestEveryStackNew: a program whose every allocation has a stack of its own takes
// its part of the room and no more, its sums stay exact, and the rest stands under
// one site, which can be called leaked as any other.
func TestEveryStackNew(t *testing.T) {
	const room, n, limit = 32 << 20, 200_000, 24 << 20
	before := inUse()
	a := New(Config{SiteRoom: room})
	a.AddProcess(ProcessInfo{PID: 7, UID: 1000})
	everyStackNew(a, 7, n)
	if took := inUse() - before; took > limit*3/2 {
		t.Errorf("%d bytes are in use, the user's part is %d", took, limit)
	}
	r := a.reportAt(uint64(n)*2000, ReportOptions{}, nil)
	h := r.Processes[0].Heap
	if h.AllocCount != n || h.FreeCount != n-n/10 || h.LiveCount != n/10 || h.LiveBytes != 16*n/10 {
		t.Errorf("the process's sums are %+v", h)
	}
	var sum, others uint64
	for i := range r.Sites {
		sum += r.Sites[i].AllocCount
		if r.Sites[i].Function == "[all other sites]" {
			others = r.Sites[i].AllocCount
		}
	}
	if sum != n || others == 0 || r.Shed == nil || r.Shed.Allocations != others || r.Shed.Stacks < others-1 || r.Shed.Blocks != 0 {
		t.Errorf("sites have %d allocations, %d of them others; shed %+v", sum, others, r.Shed)
	}
	if !strings.Contains(strings.Join(r.Warnings, "\n"), "stacks had no room (--memory)") {
		t.Errorf("warnings: %q", r.Warnings)
	}
	runtime.KeepAlive(a)
}

// TestRoomForOthers: one user's program leaves room for another user's, whose sites
// are those of a trace without it.
func TestRoomForOthers(t *testing.T) {
	a := New(Config{SiteRoom: 8 << 20})
	a.AddProcess(ProcessInfo{PID: 7, UID: 1000})
	a.AddProcess(ProcessInfo{PID: 8, UID: 1001})
	everyStackNew(a, 7, 50_000)
	everyStackNew(a, 8, 1000)
	own := 0
	for _, s := range a.sites.all {
		if s.proc.info.PID == 8 && s.other {
			t.Error("the other user's process has sites without room")
		}
		if s.proc.info.PID == 8 {
			own++
		}
	}
	if own != 1000 {
		t.Errorf("%d sites", own)
	}
}

// TestNoRoomAllocatesNothing: an event whose stack has no room costs no memory.
func TestNoRoomAllocatesNothing(t *testing.T) {
	a := New(Config{SiteRoom: 1 << 20})
	a.AddProcess(ProcessInfo{PID: 7, UID: 1000})
	everyStackNew(a, 7, 10_000)
	i, batch := uint64(20_000), input.Events{Events: make([]event.Event, 2)}
	if n := testing.AllocsPerRun(1000, func() {
		i++
		batch.Events[0] = event.Event{Kind: event.Alloc, PID: 7, TID: 7, Addr: 0x7f1000000000, Size: 16, Stack: event.StackID(i), Time: i * 1000}
		batch.Events[1] = event.Event{Kind: event.Free, PID: 7, TID: 7, Addr: 0x7f1000000000, Time: i*1000 + 1}
		a.Take(&batch)
	}); n != 0 {
		t.Errorf("%v allocations an event", n)
	}
}

// TestRoomForBlocks: blocks beyond the room are counted as not tracked; frees make
// room again, and another user has its part.
func TestRoomForBlocks(t *testing.T) {
	a := New(Config{BlockRoom: 1 << 20})
	defer a.Close()
	a.AddProcess(ProcessInfo{PID: 7, UID: 1000})
	a.AddProcess(ProcessInfo{PID: 8, UID: 1001})
	alloc := func(pid uint32, i uint64) {
		a.Apply([]event.Event{{Kind: event.Alloc, PID: pid, TID: pid, Addr: 0x7f0000000000 + i*16, Size: 16, Stack: 1, Time: i + 1}})
	}
	for i := range uint64(100_000) {
		alloc(7, i)
	}
	kept := a.byPID[7].heap.count
	if bytes := a.byPID[7].heap.bytes(); bytes > 800<<10 || kept+a.untracked != 100_000 || a.untracked == 0 {
		t.Fatalf("%d blocks in %d bytes, %d not tracked", kept, bytes, a.untracked)
	}
	for i := range uint64(3000) {
		alloc(8, i)
	}
	if n := a.byPID[8].heap.count; n != 3000 {
		t.Errorf("another user's process has %d blocks", n)
	}
	before := a.untracked
	for i := range uint64(100_000) {
		a.Apply([]event.Event{{Kind: event.Free, PID: 7, TID: 7, Addr: 0x7f0000000000 + i*16, Time: 200_000 + i}})
	}
	for i := range uint64(5000) {
		alloc(7, 300_000+i)
	}
	if a.untracked != before || a.byPID[7].heap.count != 5000 {
		t.Errorf("after the frees: %d blocks, %d not tracked more", a.byPID[7].heap.count, a.untracked-before)
	}
}
