package recording

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/tracer/event"
)

const second = uint64(1e9)

// A churner makes the inputs of a program that allocates and frees, a batch at a time.
type churner struct {
	r      *rand.Rand
	time   uint64
	addrs  []uint64
	free   []uint64
	known  map[uint64]bool
	events []event.Event
}

func newChurner(seed uint64) *churner {
	c := &churner{r: rand.New(rand.NewPCG(seed, 7)), time: 1000, known: make(map[uint64]bool)}
	for i := range uint64(1 << 13) {
		c.free = append(c.free, 0x1000+64*i)
	}
	return c
}

// batch makes n events in so many ns, and the stacks before them.
func (c *churner) batch(n int, ns uint64, give func(input.Input)) {
	c.events = c.events[:0]
	for range n {
		c.time += ns / uint64(n)
		e := event.Event{Time: c.time, PID: 9, TID: 9 + uint32(c.r.IntN(3))}
		if c.r.IntN(5) < 3 && len(c.free) > 0 || len(c.addrs) == 0 {
			k := c.r.IntN(len(c.free))
			id := 1 + c.r.Uint64N(1+min(c.time/second, 200)) // new ones all the time
			if !c.known[id] {
				c.known[id] = true
				give(input.Stack{Stack: event.Stack{ID: event.StackID(id), PID: 9, Time: c.time, Frames: []uint64{id << 8, 3, 2, 1}, Bottom: true}})
			}
			e.Kind, e.Addr, e.Size, e.Stack = event.Alloc, c.free[k], 1+c.r.Uint64N(300), event.StackID(id)
			c.addrs, c.free = append(c.addrs, e.Addr), cutOut(c.free, k)
		} else {
			k := c.r.IntN(len(c.addrs))
			e.Kind, e.Addr = event.Free, c.addrs[k]
			c.free, c.addrs = append(c.free, e.Addr), cutOut(c.addrs, k)
		}
		c.events = append(c.events, e)
	}
	give(&input.Events{Events: c.events})
}

func cutOut(list []uint64, k int) []uint64 {
	list[k] = list[len(list)-1]
	return list[:len(list)-1]
}

// A rig is an analyzer, a recording of all that it is told, and a ring of it.
type rig struct {
	t        *testing.T
	churner  *churner
	analyzer *analyzer.Analyzer
	whole    *memoryFile
	all      *Writer
	ring     *Writer
}

func newRig(t *testing.T, seed uint64, f File) *rig {
	t.Helper()
	g := &rig{t: t, churner: newChurner(seed), whole: new(memoryFile), analyzer: analyzer.New(analyzer.Config{Start: 1000, Seed: [2]uint64{1, 2}})}
	t.Cleanup(g.analyzer.Close)
	var err error
	if g.all, err = NewWriter(g.whole, header, Options{}); err != nil {
		t.Fatal(err)
	}
	if g.ring, err = NewWriter(f, header, Options{}); err != nil {
		t.Fatal(err)
	}
	g.all.disk.waits, g.ring.disk.waits = true, true
	g.take(input.Started{ProcessInfo: input.ProcessInfo{PID: 9, Comm: "churn"}})
	return g
}

func (g *rig) take(in input.Input) {
	g.all.Take(in)
	g.ring.Take(in)
	g.analyzer.Take(in)
}

// run goes on for some seconds, and has checkpoints made as they are wanted. Names come now and then.
func (g *rig) run(seconds, perSecond int, wants func(uint64) bool) {
	for i := range 4 * seconds {
		g.churner.batch(perSecond/4, second/4, g.take)
		g.take(input.Window{Now: g.churner.time})
		if i%8 == 3 {
			g.take(input.Instant{Now: g.churner.time})
			for _, q := range g.analyzer.Unnamed(analyzer.ReportOptions{}) {
				g.take(input.Names{Stack: q.Stack, PID: 9, ID: q.ID, Frames: []*input.Frame{{Function: fmt.Sprintf("f%d", q.ID), Module: "m"}, {Function: "main", Module: "m"}}})
			}
		}
		if wants(g.churner.time) {
			g.checkpoint()
		}
	}
}

// checkpoint makes one, and waits for it.
func (g *rig) checkpoint() {
	if g.ring.state != nil {
		g.ring.state.took = 0 // it may come at once
	}
	if g.ring.Checkpoint(g.churner.time, false, func() *analyzer.Checkpoint { return g.analyzer.Checkpoint(g.churner.time) }) {
		<-g.ring.state.done
	}
}

// sitesAt says what lives at an instant, by function.
func sitesAt(t *testing.T, r *Reader, at uint64) (out []string, rep *report.Report) {
	t.Helper()
	rep, _, err := r.ReportAt(at, Rooms{}, analyzer.ReportOptions{Final: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range rep.Sites {
		if s.LiveCount > 0 {
			out = append(out, fmt.Sprintf("%s %d bytes in %d, oldest %d", s.Function, s.LiveBytes, s.LiveCount, s.OldestNS))
		}
	}
	slices.Sort(out)
	return out, rep
}

// compareAt has both recordings asked at random instants that the ring has.
func (g *rig) compareAt(file []byte) {
	g.t.Helper()
	g.all.flush()
	if err := g.all.Close(); err != nil {
		g.t.Fatal(err)
	}
	whole, part := open(g.t, g.whole.Bytes()), open(g.t, file)
	from, carried := part.From()
	_, last := part.Span()
	if !carried || len(part.gaps) > 0 {
		g.t.Fatalf("from a checkpoint: %v; gaps %+v", carried, part.gaps)
	}
	for range 8 {
		at := from + g.churner.r.Uint64N(last-from+1)
		want, _ := sitesAt(g.t, whole, at)
		got, rep := sitesAt(g.t, open(g.t, file), at)
		if !slices.Equal(got, want) || len(want) == 0 {
			g.t.Fatalf("at %d, from %d:\n%s\nwant\n%s", at, from, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if !slices.ContainsFunc(rep.Warnings, func(w string) bool { return strings.Contains(w, "are counted from then on") }) {
			g.t.Errorf("warnings %q do not say from when on is counted", rep.Warnings)
		}
	}
}

// What lives at any instant that a ring in memory keeps is what a recording of all says.
func TestMemoryRingKnowsWhatLives(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		m := NewMemoryRing(10*second, DefaultRoom)
		g := newRig(t, seed, m)
		g.run(40, 4000, m.WantsCheckpoint)
		frozen := g.freeze(m)
		if span := frozen.To - frozen.From; frozen.From == 0 || span < 10*second || span > 14*second || frozen.Short {
			t.Errorf("%+v: %d s are kept, want 10 to 14", frozen, span/second)
		}
		g.compareAt(g.bytes(frozen))
		if err := g.ring.Close(); err != nil {
			t.Error(err)
		}
	}
}

func (g *rig) freeze(m *MemoryRing) *Frozen {
	g.t.Helper()
	var f *Frozen
	done := make(chan error)
	g.ring.After(func() {
		var err error
		f, err = m.Freeze()
		done <- err
	})
	if err := <-done; err != nil {
		g.t.Fatal(err)
	}
	return f
}

// written is what is so once all that was given is written.
func (g *rig) written(is func() bool) bool {
	answer := make(chan bool)
	g.ring.After(func() { answer <- is() })
	return <-answer
}

func (g *rig) bytes(f *Frozen) []byte {
	var b bytes.Buffer
	if _, err := f.WriteTo(&b); err != nil {
		g.t.Fatal(err)
	}
	return b.Bytes()
}

// A ring that has come to its room keeps less, and says so; before its first checkpoint it has the trace's beginning.
func TestMemoryRingKeepsToItsRoom(t *testing.T) {
	t.Parallel()
	const room = 1 << 20
	m := NewMemoryRing(100*second, room)
	g := newRig(t, 1, m)
	if f := g.freeze(m); f.From != 0 || f.Short {
		t.Errorf("%+v at the beginning", f)
	}
	most := int64(0)
	for range 30 {
		g.run(1, 20000, m.WantsCheckpoint)
		most = max(most, m.Size())
	}
	f := g.freeze(m)
	if most > room || !f.Short || f.From == 0 {
		t.Errorf("%d bytes at most, %+v", most, f)
	}
	g.compareAt(g.bytes(f))
	if err := g.ring.Close(); err != nil {
		t.Error(err)
	}
}

// A ring that runs full while a checkpoint is being written begins with that one, and has what goes on from it.
func TestMemoryRingRunsFullBesideACheckpoint(t *testing.T) {
	t.Parallel()
	const room = 1 << 20
	m := NewMemoryRing(100*second, room)
	g := newRig(t, 5, m)
	g.run(2, 20000, func(uint64) bool { return false })
	var parts []block
	g.ring.flush()
	c, apart := g.analyzer.Checkpoint(g.churner.time), make(chan block, 100)
	x := &stateWriter{
		disk: &disk{apart: apart}, quit: make(chan struct{}), done: make(chan struct{}),
		end: checkpointEnd{At: g.churner.time, Before: g.ring.disk.number, Blocks: c.Blocks, Bytes: c.Bytes},
	}
	x.run(c)
	close(apart)
	for b := range apart {
		parts = append(parts, b)
	}
	g.ring.disk.apart <- parts[0]
	for empty := false; !empty; {
		g.run(1, 10000, func(uint64) bool { return false })
		empty = g.written(func() bool { return m.empty })
	}
	for _, b := range parts[1:] {
		g.ring.disk.apart <- b
	}
	f := g.freeze(m)
	if f.From != x.end.At {
		t.Errorf("it begins at %d, want %d", f.From, x.end.At)
	}
	g.compareAt(g.bytes(f))
	if err := g.ring.Close(); err != nil {
		t.Error(err)
	}
}

// A checkpoint does not rest until the ring has had to let go of all.
func TestMemoryRingRestsLessWhenPressed(t *testing.T) {
	t.Parallel()
	m := NewMemoryRing(100*second, 1<<20)
	g := newRig(t, 6, m)
	g.run(1, 4000, func(uint64) bool { return false })
	g.checkpoint()
	g.ring.state.took, g.ring.state.over = time.Hour, time.Now().Add(-2*time.Hour)
	take := func() *analyzer.Checkpoint { return g.analyzer.Checkpoint(g.churner.time) }
	if m.IsPressed() || g.ring.Checkpoint(g.churner.time, false, take) {
		t.Error("a checkpoint comes too early")
	}
	for !g.written(m.IsPressed) {
		g.run(1, 10000, func(uint64) bool { return false })
	}
	if g.freeze(m).Short || !m.WantsCheckpoint(g.churner.time) || !g.ring.Checkpoint(g.churner.time, true, take) {
		t.Error("no checkpoint comes while there is room for it")
	}
	if err := g.ring.Close(); err != nil {
		t.Error(err)
	}
}

// keptFiles are real ones, that are replaced.
func keptFiles(t *testing.T) (string, func() (KeptFile, error), Turning, *int) {
	t.Helper()
	path, turns := filepath.Join(t.TempDir(), "ring"), 0
	next := func(name string) (KeptFile, error) {
		f, err := os.Create(name)
		return f, err
	}
	return path, func() (KeptFile, error) { return next(path) }, Turning{
		Next:    func() (KeptFile, error) { return next(path + ".turn") },
		Replace: func(KeptFile) error { turns++; return os.Rename(path+".turn", path) },
		Discard: func(f KeptFile) { _ = f.Close(); _ = os.Remove(path + ".turn") },
	}, &turns
}

// The file of a ring on disk is whole whenever it is looked at, has what is to be kept, and does not grow.
func TestDiskRingTurns(t *testing.T) {
	t.Parallel()
	path, first, turning, turns := keptFiles(t)
	f, err := first()
	if err != nil {
		t.Fatal(err)
	}
	d := NewDiskRing(f, 5*second, turning)
	g := newRig(t, 3, d)
	most := int64(0)
	for i := range 60 {
		g.run(1, 4000, d.WantsCheckpoint)
		d.busy.Wait()
		most = max(most, d.Size())
		file, err := os.ReadFile(path) // as a memtrace that is killed now leaves it
		if err != nil {
			t.Fatal(err)
		}
		r := open(t, file)
		if from, carried := r.From(); len(r.gaps) > 0 || i > 20 && !carried || g.churner.time-from < 5*second && i > 6 {
			t.Fatalf("after %d s: from %d (%v) to %d, gaps %+v", i, from, carried, g.churner.time, r.gaps)
		}
		if i > 6 && i%10 == 0 {
			_, last := r.Span()
			if got, _ := sitesAt(t, open(t, file), last); len(got) == 0 {
				t.Fatal("nothing lives")
			}
		}
	}
	if err := g.ring.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	g.compareAt(file)
	if *turns < 5 || most > 3*int64(len(file)) || !open(t, file).Closed() {
		t.Errorf("%d turns, %d bytes at most, %d in the end", *turns, most, len(file))
	}
}
