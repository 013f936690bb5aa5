package analyzer

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/tracer/event"
)

// A lifeBook is an Observer that keeps what it is told. All tests of streams compare it with the analyzer's
// own sums: see onTape.
type lifeBook struct {
	t     *testing.T
	live  map[lifeKey]Life
	sites map[uint32]*lifeSums
	ends  []Life
}

type lifeKey struct {
	process int
	pid     uint32
	addr    uint64
}

type lifeSums struct {
	allocs, allocBytes, frees, temp, copies, gone uint64
	live, liveBytes                               uint64
	alloc, held                                   Others
}

func newLifeBook(t *testing.T) *lifeBook {
	return &lifeBook{t: t, live: make(map[lifeKey]Life), sites: make(map[uint32]*lifeSums)}
}

func (b *lifeBook) site(l *Life) *lifeSums {
	if b.sites[l.Site] == nil {
		b.sites[l.Site] = &lifeSums{}
	}
	return b.sites[l.Site]
}

func (l *Life) key() lifeKey { return lifeKey{l.Process, l.PID, l.Addr} }

func (b *lifeBook) Born(l *Life) {
	if old, ok := b.live[l.key()]; ok {
		b.t.Errorf("born where another lives: %+v, %+v", *l, old)
	}
	if l.Ended != 0 || l.Born > l.Since || l.Cause == ByFork && l.TID != 0 {
		b.t.Errorf("born: %+v", *l)
	}
	b.live[l.key()] = *l
	s, x := b.site(l), l.Others()
	s.live++
	s.liveBytes += l.Size
	s.held.Count, s.held.Bytes = s.held.Count+x.Count, s.held.Bytes+x.Bytes
	if l.Cause == ByFork {
		s.copies++
		return
	}
	s.allocs++
	s.allocBytes += l.Size
	s.alloc.Count, s.alloc.Bytes = s.alloc.Count+x.Count, s.alloc.Bytes+x.Bytes
}

func (b *lifeBook) Ended(l *Life) {
	was, ok := b.live[l.key()]
	if !ok || was.Size != l.Size || was.Site != l.Site || was.Born != l.Born || was.Since != l.Since || was.Interval != l.Interval {
		b.t.Errorf("ended: %+v, which was born as %+v", *l, was)
	}
	delete(b.live, l.key())
	b.ends = append(b.ends, *l)
	s, x := b.site(l), l.Others()
	s.live--
	s.liveBytes -= l.Size
	s.held.Count, s.held.Bytes = s.held.Count-x.Count, s.held.Bytes-x.Bytes
	if !l.Cause.Frees() {
		s.gone++
		return
	}
	s.frees++
	if l.Temporary {
		s.temp++
	}
}

// compare looks whether the analyzer counted the same.
func (b *lifeBook) compare(a *Analyzer) {
	b.t.Helper()
	for id, s := range a.sites.all {
		got := lifeSums{}
		if b.sites[uint32(id)] != nil {
			got = *b.sites[uint32(id)]
		}
		want := lifeSums{allocs: s.allocCount, allocBytes: s.allocBytes, frees: s.freeCount, temp: s.tempCount, copies: s.inherited,
			gone: s.gone, live: s.liveCount, liveBytes: s.liveBytes}
		if x := s.extras; x != nil {
			want.alloc, want.held = Others{Count: x.alloc.count, Bytes: x.alloc.bytes}, Others{Count: x.live.count, Bytes: x.live.bytes}
		}
		if got != want {
			b.t.Errorf("site %d: the lives add up to %+v, the analyzer counts %+v", id, got, want)
		}
	}
	b.compareLives(a)
}

func (b *lifeBook) compareLives(a *Analyzer) {
	b.t.Helper()
	left := maps.Clone(b.live)
	for l := range a.Lives {
		was, ok := left[l.key()]
		was.Cause, was.TID, was.Old, was.Leaked = 0, 0, 0, l.Leaked
		if !ok || was != *l {
			b.t.Errorf("lives: %+v, which was born as %+v", *l, was)
		}
		delete(left, l.key())
	}
	if len(left) != 0 {
		b.t.Errorf("these live no more without a word: %v", slices.Collect(maps.Values(left)))
	}
}

// naiveLife is a block by a model that knows of one process.
type naiveLife struct {
	addr, size, born, ended uint64
	stack                   event.StackID
	cause                   Cause
}

// naiveLives goes through events of one process as docs/counting.md has it.
func naiveLives(events []event.Event) (ended, live []naiveLife) {
	heap := make(map[uint64]naiveLife)
	end := func(addr, at uint64, by Cause) {
		l := heap[addr]
		l.ended, l.cause = at, by
		ended = append(ended, l)
		delete(heap, addr)
	}
	for _, e := range events {
		now := e.Time - testStart
		if e.Kind == event.Free && heap[e.Addr].addr != 0 {
			end(e.Addr, now, ByFree)
		}
		if e.Kind == event.Realloc && heap[e.Old].addr != 0 && testStart+heap[e.Old].born <= e.Began {
			end(e.Old, now, ByRealloc)
		}
		if (e.Kind == event.Realloc || e.Kind == event.Alloc) && e.Addr != 0 {
			if heap[e.Addr].addr != 0 {
				end(e.Addr, now, ByOverwrite)
			}
			heap[e.Addr] = naiveLife{addr: e.Addr, size: e.Size, born: now, stack: e.Stack}
		}
		if e.Kind == event.Exec {
			for _, addr := range slices.Sorted(maps.Keys(heap)) {
				end(addr, now, ByExec)
			}
		}
	}
	return ended, slices.Collect(maps.Values(heap))
}

// TestObserver compares lives with those of a model that shares nothing with the analyzer.
func TestObserver(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 28))
		var tr trace
		for range 1000 {
			e := randomEvent(r)
			e.PID = testPID
			if e.Kind != event.Fork && e.Kind != event.Exit {
				tr.add(e)
			}
		}
		book := newLifeBook(t)
		a := New(Config{Start: testStart, Observer: book})
		a.AddProcess(ProcessInfo{PID: testPID})
		a.Apply(tr.events)
		book.compare(a)
		ended, live := naiveLives(tr.events)
		a.compareNaive(t, "ended", book.ends, ended)
		a.compareNaive(t, "live", slices.Collect(maps.Values(book.live)), live)
		a.Close()
		if t.Failed() {
			t.Fatalf("with seed %d", seed)
		}
	}
}

func (a *Analyzer) compareNaive(t *testing.T, what string, lives []Life, want []naiveLife) {
	t.Helper()
	var got []naiveLife
	for _, l := range lives {
		n := naiveLife{addr: l.Addr, size: l.Size, born: l.Born, ended: l.Ended, cause: l.Cause}
		if n.ended == 0 {
			n.cause = 0
		}
		name, ok := a.Site(l.Site)
		if !ok {
			t.Errorf("no site %d", l.Site)
		}
		n.stack = name.Stack
		got = append(got, n)
	}
	for _, list := range [][]naiveLife{got, want} {
		slices.SortFunc(list, func(x, y naiveLife) int {
			return slices.Compare([]uint64{x.ended, x.addr}, []uint64{y.ended, y.addr})
		})
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %v\nwant %v", what, got, want)
	}
}

// TestObserverOfVerdicts sees that a verdict stands on the block that it was about alone.
func TestObserverOfVerdicts(t *testing.T) {
	book := newLifeBook(t)
	a := New(Config{Start: testStart, Observer: book})
	defer a.Close()
	a.AddProcess(ProcessInfo{PID: testPID})
	tr := new(trace).malloc(0x1000, 40, 1).malloc(0x2000, 50, 1).malloc(0x3000, 60, 1)
	a.Apply(tr.events)
	leak := func(addr, size uint64) input.Leaked {
		return input.Leaked{Addr: addr, Size: size, Kind: input.Definite}
	}
	a.give(input.Verdicts{PID: testPID, When: string(CheckBeforeExec), Began: testStart + tr.time, Leaks: []input.Leaked{leak(0x1000, 40), leak(0x2000, 50)}})
	leaked := func() string {
		var out []string
		for l := range a.Lives {
			out = append(out, fmt.Sprintf("%#x %s", l.Addr, l.Leaked))
		}
		slices.Sort(out)
		return fmt.Sprint(out)
	}
	if got, want := leaked(), "[0x1000 definite 0x2000 definite 0x3000 ]"; got != want {
		t.Errorf("after the check: %s, want %s", got, want)
	}
	if n := a.LeakChecks(); n != 1 {
		t.Errorf("%d leak checks, want 1", n)
	}
	again := &trace{time: tr.time}
	a.Apply(again.free(0x1000).malloc(0x1000, 40, 1).events)
	if got, want := leaked(), "[0x1000  0x2000 definite 0x3000 ]"; got != want {
		t.Errorf("after one is freed: %s, want %s", got, want)
	}
	end := &trace{time: again.time}
	a.Apply(end.kind(event.Exec).events)
	var kept []string
	for _, l := range book.ends {
		if l.Leaked != "" {
			kept = append(kept, fmt.Sprintf("%#x %s %s", l.Addr, l.Leaked, l.Cause))
		}
	}
	if fmt.Sprint(kept) != "[0x2000 definite exec]" {
		t.Errorf("at exec: %v", kept)
	}
}
