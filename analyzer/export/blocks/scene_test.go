package blocks

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/tracer/event"
)

const sceneStart = 5e12

// A scene is a stream of inputs, and what happened in it by a book that is kept as it is made up.
type scene struct {
	config analyzer.Config
	inputs []input.Input
	now    uint64
	random *rand.Rand
	books  map[uint32]*book

	interval uint32 // of a sample
	name     func(pid uint32, leaf uint64) string
}

// A book is the truth on a process.
type book struct {
	pid               uint32
	live              map[uint64]held
	addrs             []uint64        // that live, to choose from
	recent            map[uint32]held // what a thread allocated last
	recentAt          map[uint32]uint64
	free              []uint64 // addresses to give out again
	next              uint64
	sum               sums
	byLeaf            map[string]*sums
	held              uint64
	peak              uint64
	latest            uint64 // the allocation that was the event before, for what heaptrack calls temporary
	temporary, atOnce uint64
	rss               []uint64
}

type held struct {
	size   uint64
	leaf   string
	number uint64 // of the allocation, from 1 on
}

type sums struct{ allocs, frees, allocBytes, liveBytes uint64 }

func newScene(seed uint64) *scene {
	return &scene{
		config: analyzer.Config{Start: sceneStart, Seed: [2]uint64{seed, 1}, FollowForks: true},
		now:    sceneStart, random: rand.New(rand.NewPCG(seed, 2)), books: make(map[uint32]*book),
		name: func(pid uint32, leaf uint64) string { return fmt.Sprintf("leaf_%d_%d", pid, leaf) },
	}
}

// process makes a process known, with so many call stacks.
func (s *scene) process(pid uint32, comm string, stacks uint64) *book {
	s.inputs = append(s.inputs, input.Started{ProcessInfo: input.ProcessInfo{PID: pid, Comm: comm, Exe: "/usr/bin/" + comm}})
	for i := range stacks {
		frames := []uint64{leafAddr(pid, i), 0x2000 + i%3, 0x1000}
		s.inputs = append(s.inputs, input.Stack{Stack: event.Stack{ID: stackID(i), Time: s.now, PID: pid, Bottom: true, Frames: frames}})
	}
	b := &book{pid: pid, live: make(map[uint64]held), recent: make(map[uint32]held), recentAt: make(map[uint32]uint64), next: 0x7f0000000000 + uint64(pid)<<16, byLeaf: make(map[string]*sums)}
	s.books[pid] = b
	return b
}

func leafAddr(pid uint32, i uint64) uint64 { return uint64(pid)<<32 | 0x10000 + i*16 }
func stackID(i uint64) event.StackID       { return event.StackID(0x9e3779b97f4a7c15 * (i + 1)) }

func (s *scene) event(e event.Event) {
	s.now += 1 + s.random.Uint64N(20_000)
	e.Time = s.now
	if e.Kind == event.Realloc {
		e.Began = s.now
	}
	if s.interval != 0 && e.Kind != event.Exec && e.Kind != event.Fork {
		e.Child = s.interval
	}
	s.inputs = append(s.inputs, &input.Events{Events: []event.Event{e}})
}

// alloc allocates, or moves the block at old.
func (s *scene) alloc(b *book, tid uint32, stack, size, old uint64) {
	addr := b.next
	if n := len(b.free); n > 0 {
		addr, b.free = b.free[n-1], b.free[:n-1]
	} else {
		b.next += 1 << 16
	}
	e := event.Event{PID: b.pid, TID: tid, Kind: event.Alloc, Addr: addr, Size: size, Stack: stackID(stack)}
	if old != 0 {
		e.Kind, e.Old = event.Realloc, old
		b.end(tid, old)
	}
	s.event(e)
	leaf := s.name(b.pid, stack)
	if b.byLeaf[leaf] == nil {
		b.byLeaf[leaf] = &sums{}
	}
	for _, to := range []*sums{&b.sum, b.byLeaf[leaf]} {
		to.allocs++
		to.allocBytes += size
		to.liveBytes += size
	}
	h := held{size, leaf, b.sum.allocs}
	b.live[addr], b.recent[tid], b.recentAt[tid], b.latest = h, h, addr, h.number
	b.addrs = append(b.addrs, addr)
	b.held += size
	b.peak = max(b.peak, b.held)
}

func (s *scene) free(b *book, tid uint32, addr uint64) {
	s.event(event.Event{PID: b.pid, TID: tid, Kind: event.Free, Addr: addr})
	b.end(tid, addr)
}

func (b *book) end(tid uint32, addr uint64) {
	h := b.live[addr]
	delete(b.live, addr)
	for i, a := range b.addrs {
		if a == addr {
			b.addrs[i] = b.addrs[len(b.addrs)-1]
			b.addrs = b.addrs[:len(b.addrs)-1]
			break
		}
	}
	for _, of := range []*sums{&b.sum, b.byLeaf[h.leaf]} {
		of.frees++
		of.liveBytes -= h.size
	}
	b.held -= h.size
	if b.recent[tid] == h {
		b.temporary++
		if b.latest == h.number {
			b.atOnce++
		}
	}
	b.latest = 0
	b.free = append(b.free, addr)
}

// run has something happen, again and again.
func (s *scene) run(b *book, events int, stacks uint64) {
	for range events {
		tid := b.pid + uint32(s.random.UintN(3))
		size := 1 + s.random.Uint64N(200)
		if s.random.UintN(50) == 0 {
			size *= 500
		}
		stack := s.random.Uint64N(stacks)
		switch n := s.random.UintN(100); {
		case n < 52 || len(b.addrs) == 0:
			s.alloc(b, tid, stack, size, 0)
		case n < 57:
			s.alloc(b, tid, stack, size, b.addrs[s.random.IntN(len(b.addrs))])
		case n < 75 && b.recent[tid].number != 0 && b.live[b.recentAt[tid]] == b.recent[tid]:
			s.free(b, tid, b.recentAt[tid])
		default:
			s.free(b, tid, b.addrs[s.random.IntN(len(b.addrs))])
		}
		if s.random.UintN(200) == 0 {
			s.memory(b)
		}
	}
}

func (s *scene) memory(b *book) {
	rss := 4096 * (1000 + s.random.Uint64N(1000))
	b.rss = append(b.rss, rss)
	s.inputs = append(s.inputs, input.Memory{PID: b.pid, Now: s.now, Usage: input.Usage{RSS: rss, Swap: 8192}})
}

// end names all stacks.
func (s *scene) end() {
	a := analyzer.New(s.config)
	defer a.Close()
	s.inputs = append(s.inputs, input.Instant{Now: s.now})
	for _, in := range s.inputs {
		a.Take(in)
	}
	for _, q := range a.Unnamed(analyzer.ReportOptions{Final: true}) {
		s.inputs = append(s.inputs, input.Names{Stack: q.Stack, Last: true, Frames: s.frames(q)})
	}
}

func (s *scene) frames(q analyzer.UnnamedStack) (out []*input.Frame) {
	leaf := (q.Addrs[0]&0xffffffff - 0x10000) / 16
	out = append(out, &input.Frame{
		Function: s.name(uint32(q.Addrs[0]>>32), leaf), File: "leaf.c", Line: int(leaf) + 1,
		Module: "/usr/bin/program", BuildID: "0123456789abcdef0123456789abcdef01234567", Offset: q.Addrs[0] & 0xffffff,
	})
	for _, addr := range q.Addrs[1:] {
		out = append(out, &input.Frame{Function: fmt.Sprintf("caller_%x", addr), Module: "/usr/lib/library.so", BuildID: "00ff", Offset: addr})
	}
	return out
}

func (s *scene) play(a *analyzer.Analyzer, told func(input.Input)) ([]string, error) {
	for _, in := range s.inputs {
		a.Take(in)
		told(in)
	}
	return nil, nil
}

func (s *scene) write(t *testing.T, o Options) ([]byte, []string) {
	t.Helper()
	o.Config, o.Version = s.config, "test"
	if o.Folder == "" {
		o.Folder = t.TempDir()
	}
	var out bytes.Buffer
	notes, err := Write(&out, s.play, o)
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), notes
}

// twoProcesses is a scene of two processes that know nothing of each other.
func twoProcesses(events int) *scene {
	s := newScene(7)
	a, b := s.process(100, "first", 20), s.process(200, "second", 5)
	for range events / 100 {
		s.run(a, 70, 20)
		s.run(b, 30, 5)
	}
	s.end()
	return s
}
