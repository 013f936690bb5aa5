package query

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/input/inputtest"
	"github.com/memtrace/memtrace/tracer/event"
)

const start = 5_000_000

// A naiveBlock is a block by a model that shares nothing with the analyzer.
type naiveBlock struct {
	pid, thread, freeThread uint32
	addr, size, born, ended uint64
	live, temporary         bool
	chain                   int
	stack                   event.StackID
	kind, endedBy           string
}

// now is the end of its life or of the span.
func (b *naiveBlock) lifetime(end uint64) uint64 {
	if b.live {
		return end - b.born
	}
	return b.ended - b.born
}

// A naiveTrace makes a random trace and keeps all of its blocks.
type naiveTrace struct {
	r      *rand.Rand
	tape   inputtest.Tape[struct{}]
	live   map[[2]uint64]*naiveBlock // by PID and address
	latest map[uint32]*naiveBlock    // by thread
	all    []*naiveBlock
	now    uint64
	end    uint64
	batch  []event.Event
}

// stackNames are the functions of each stack, innermost first.
func stackNames(id event.StackID) []string {
	return []string{fmt.Sprintf("parse_%d", id%5), fmt.Sprintf("handle_%d", id%3), "main"}
}

func moduleOf(id event.StackID) string { return []string{"/bin/prog", "/lib/libz.so.1"}[id%2] }

func newNaiveTrace(t *testing.T, seed uint64, events int) *naiveTrace {
	n := &naiveTrace{r: rand.New(rand.NewPCG(seed, 4)), live: make(map[[2]uint64]*naiveBlock), latest: make(map[uint32]*naiveBlock)}
	for pid := uint32(10); pid < 12; pid++ {
		n.tape.Take(input.Started{ProcessInfo: input.ProcessInfo{PID: pid, Comm: fmt.Sprintf("prog%d", pid), Allocators: []string{"glibc /lib/libc.so.6"}}})
		for id := event.StackID(1); id < 12; id++ {
			n.tape.Take(input.Stack{Stack: event.Stack{ID: id, PID: pid, Frames: []uint64{uint64(id) << 8, uint64(id)<<8 + 1, uint64(id)<<8 + 2}}})
		}
	}
	for range events {
		n.step()
		if n.r.IntN(50) == 0 {
			n.flush()
		}
	}
	n.flush()
	n.end = n.now
	n.tape.Take(input.Instant{Now: start + n.end})
	n.name(t)
	return n
}

func (n *naiveTrace) flush() {
	n.tape.Take(&input.Events{Events: n.batch})
	n.batch = n.batch[:0]
}

// name gives the answers that a tracer would.
func (n *naiveTrace) name(t *testing.T) {
	a := analyzer.New(analyzer.Config{Start: start})
	defer a.Close()
	for in := range n.tape.Each {
		a.Take(in)
	}
	for _, q := range a.Unnamed(analyzer.ReportOptions{Final: true}) {
		id := event.StackID(q.Addrs[0] >> 8)
		in := input.Names{Stack: q.Stack, Last: true}
		for i, f := range stackNames(id) {
			in.Frames = append(in.Frames, &input.Frame{Function: f, File: f + ".c", Line: 10 + i, Module: moduleOf(id)})
		}
		n.tape.Take(in)
	}
}

func (n *naiveTrace) step() {
	n.now += 1 + n.r.Uint64N(1<<n.r.Uint64N(24))
	pid := 10 + n.r.Uint32N(2)
	tid := pid*10 + n.r.Uint32N(3)
	e := event.Event{Time: start + n.now, PID: pid, TID: tid, Stack: event.StackID(1 + n.r.Uint64N(11)), Size: n.r.Uint64N(1 << n.r.Uint64N(20))}
	mine := n.blocksOf(pid)
	switch {
	case len(mine) == 0 || n.r.IntN(10) < 4:
		e.Kind, e.Addr = event.Alloc, n.address(pid)
		n.begin(e, 0, "alloc")
	case n.r.IntN(400) == 0:
		e.Kind = event.Exec
		for _, b := range mine {
			n.finish(b, "exec", 0)
		}
	case n.r.IntN(3) == 0:
		old := mine[n.r.IntN(len(mine))]
		e.Kind, e.Old, e.Addr, e.Began = event.Realloc, old.addr, n.address(pid), e.Time
		n.finish(old, "realloc", tid)
		n.begin(e, old.chain+1, "realloc")
	default:
		b := mine[n.r.IntN(len(mine))]
		if last := n.latest[tid]; last != nil && last.live && last.pid == pid && n.r.IntN(3) == 0 {
			b = last
		}
		e.Kind, e.Addr = event.Free, b.addr
		n.finish(b, "free", tid)
	}
	n.batch = append(n.batch, e)
}

func (n *naiveTrace) blocksOf(pid uint32) (out []*naiveBlock) {
	for _, b := range n.live {
		if b.pid == pid {
			out = append(out, b)
		}
	}
	slices.SortFunc(out, func(x, y *naiveBlock) int { return int(x.addr) - int(y.addr) })
	return out
}

func (n *naiveTrace) address(pid uint32) uint64 {
	for {
		addr := 16 * (1 + n.r.Uint64N(100_000))
		if n.live[[2]uint64{uint64(pid), addr}] == nil {
			return addr
		}
	}
}

func (n *naiveTrace) begin(e event.Event, chain int, kind string) {
	b := &naiveBlock{pid: e.PID, thread: e.TID, addr: e.Addr, size: e.Size, born: n.now, live: true, chain: chain, stack: e.Stack, kind: kind}
	n.live[[2]uint64{uint64(e.PID), e.Addr}] = b
	n.latest[e.TID] = b
	n.all = append(n.all, b)
}

func (n *naiveTrace) finish(b *naiveBlock, by string, tid uint32) {
	delete(n.live, [2]uint64{uint64(b.pid), b.addr})
	b.live, b.ended, b.endedBy, b.freeThread = false, n.now, by, tid
	b.temporary = tid != 0 && n.latest[tid] == b
}

func (n *naiveTrace) source() Source {
	return Source{Config: analyzer.Config{Start: start}, End: n.end, Play: func(a *analyzer.Analyzer, _, until uint64) ([]string, error) {
		for in := range n.tape.Each {
			switch v := in.(type) {
			case *input.Events:
				a.Take(&input.Events{Events: v.Events[:upTo(v.Events, until)]})
			case input.Instant:
				a.Take(input.Instant{Now: min(v.Now, until)})
			default:
				a.Take(in)
			}
		}
		return nil, nil
	}}
}

// upTo is how many events there are until a time.
func upTo(events []event.Event, until uint64) int {
	n := len(events)
	for n > 0 && events[n-1].Time > until {
		n--
	}
	return n
}

// An atom is a comparison, and the same as Go.
type atom struct {
	text string
	held func(b *naiveBlock, end uint64) bool
}

var atoms = []atom{
	{"size > 4KiB", func(b *naiveBlock, _ uint64) bool { return b.size > 4096 }},
	{"size % 16 == 0", func(b *naiveBlock, _ uint64) bool { return b.size%16 == 0 }},
	{"lifetime < 1ms", func(b *naiveBlock, end uint64) bool { return b.lifetime(end) < 1_000_000 }},
	{"lifetime >= 0.5s", func(b *naiveBlock, end uint64) bool { return b.lifetime(end) >= 500_000_000 }},
	{"born < 100ms", func(b *naiveBlock, _ uint64) bool { return b.born < 100_000_000 }},
	{"freed > 200ms", func(b *naiveBlock, _ uint64) bool { return !b.live && b.ended > 200_000_000 }},
	{"freed - born <= 10us", func(b *naiveBlock, _ uint64) bool { return !b.live && b.ended-b.born <= 10_000 }},
	{"alive_at(150ms)", func(b *naiveBlock, end uint64) bool {
		return b.born <= 150_000_000 && (b.live && end >= 150_000_000 || b.ended > 150_000_000)
	}},
	{"alive_at(end - 20ms)", func(b *naiveBlock, end uint64) bool {
		return b.born+20_000_000 <= end && (b.live || b.ended+20_000_000 > end)
	}},
	{"live", func(b *naiveBlock, _ uint64) bool { return b.live }},
	{"temporary", func(b *naiveBlock, _ uint64) bool { return b.temporary }},
	{"thread in [100, 110, 112]", func(b *naiveBlock, _ uint64) bool { return b.thread == 100 || b.thread == 110 || b.thread == 112 }},
	{"thread != free_thread", func(b *naiveBlock, _ uint64) bool { return b.freeThread != 0 && b.thread != b.freeThread }},
	{"realloc_chain >= 2", func(b *naiveBlock, _ uint64) bool { return b.chain >= 2 }},
	{`kind == "realloc"`, func(b *naiveBlock, _ uint64) bool { return b.kind == "realloc" }},
	{`ended_by in ["free", "exec"]`, func(b *naiveBlock, _ uint64) bool { return b.endedBy == "free" || b.endedBy == "exec" }},
	{"pid == 11", func(b *naiveBlock, _ uint64) bool { return b.pid == 11 }},
	{`function ~ "parse_[12]"`, func(b *naiveBlock, _ uint64) bool { return b.stack%5 == 1 || b.stack%5 == 2 }},
	{`stack == "handle_0"`, func(b *naiveBlock, _ uint64) bool { return b.stack%3 == 0 }},
	{`stack !~ "_2$"`, func(b *naiveBlock, _ uint64) bool { return b.stack%5 != 2 && b.stack%3 != 2 }},
	{`module != '/bin/prog'`, func(b *naiveBlock, _ uint64) bool { return b.stack%2 == 1 }},
	{`comm == "prog10"`, func(b *naiveBlock, _ uint64) bool { return b.pid == 10 }},
	{"depth == 3 && line == 10", func(*naiveBlock, uint64) bool { return true }},
	{`file == "parse_4.c"`, func(b *naiveBlock, _ uint64) bool { return b.stack%5 == 4 }},
	{`allocator ~ "^glibc$"`, func(*naiveBlock, uint64) bool { return true }},
}

// random makes an expression of atoms.
func random(r *rand.Rand, depth int) atom {
	if depth == 0 || r.IntN(3) == 0 {
		return atoms[r.IntN(len(atoms))]
	}
	x, y := random(r, depth-1), random(r, depth-1)
	switch r.IntN(5) {
	case 0:
		return atom{"!(" + x.text + ")", func(b *naiveBlock, end uint64) bool { return !x.held(b, end) }}
	case 1:
		return atom{"(" + x.text + " or " + y.text + ")", func(b *naiveBlock, end uint64) bool { return x.held(b, end) || y.held(b, end) }}
	case 2:
		return atom{"(" + x.text + ") == (" + y.text + ")", func(b *naiveBlock, end uint64) bool { return x.held(b, end) == y.held(b, end) }}
	}
	return atom{"(" + x.text + " && " + y.text + ")", func(b *naiveBlock, end uint64) bool { return x.held(b, end) && y.held(b, end) }}
}

// keys are the groupings that the model knows, and its names of groups.
var keys = map[string]func(*naiveBlock) string{
	"function": func(b *naiveBlock) string { return stackNames(b.stack)[0] },
	"caller":   func(b *naiveBlock) string { return stackNames(b.stack)[1] },
	"file":     func(b *naiveBlock) string { return stackNames(b.stack)[0] + ".c" },
	"module":   func(b *naiveBlock) string { return moduleOf(b.stack) },
	"comm":     func(b *naiveBlock) string { return fmt.Sprintf("prog%d", b.pid) },
	"process":  func(b *naiveBlock) string { return fmt.Sprintf("prog%d (%d)", b.pid, b.pid) },
	"pid":      func(b *naiveBlock) string { return fmt.Sprint(b.pid) },
	"thread":   func(b *naiveBlock) string { return fmt.Sprint(b.thread) },
	"kind":     func(b *naiveBlock) string { return b.kind },
	"ended_by": func(b *naiveBlock) string { return orLives(b.endedBy) },
}

func orLives(word string) string {
	if word == "" {
		return "[lives]"
	}
	return word
}

// TestAgainstModel asks random questions of random traces.
func TestAgainstModel(t *testing.T) {
	words := slices.Sorted(maps.Keys(keys))
	for seed := range uint64(8) {
		n := newNaiveTrace(t, seed, 2500)
		r := rand.New(rand.NewPCG(seed, 5))
		for range 60 {
			a := random(r, 3)
			q, err := Compile(a.text)
			if err != nil {
				t.Fatal(err)
			}
			opt := Options{By: words[r.IntN(len(words))]}
			end := n.end
			if r.IntN(3) == 0 {
				opt.To = 1 + r.Uint64N(n.end)
				opt.From = r.Uint64N(opt.To + 1)
				end = opt.To
			}
			res, err := Run(n.source(), q, opt)
			if err != nil {
				t.Fatal(err)
			}
			compareGroups(t, a, opt, res, n.blocksIn(opt.From, end), end)
			if t.Failed() {
				t.Fatalf("seed %d, %s by %s from %d to %d", seed, a.text, opt.By, opt.From, opt.To)
			}
		}
	}
}

// blocksIn are those that lived in a span, as they were at its end.
func (n *naiveTrace) blocksIn(from, to uint64) (out []*naiveBlock) {
	for _, b := range n.all {
		c := *b
		if c.born > to || !c.live && c.ended <= from && from != 0 {
			continue
		}
		if !c.live && c.ended > to {
			c.live, c.ended, c.endedBy, c.freeThread, c.temporary = true, 0, "", 0, false
		}
		out = append(out, &c)
	}
	return out
}

func compareGroups(t *testing.T, a atom, opt Options, res *Result, blocks []*naiveBlock, end uint64) {
	t.Helper()
	want := make(map[string]Figures)
	var total Figures
	for _, b := range blocks {
		if !a.held(b, end) {
			continue
		}
		key := keys[opt.By](b)
		f := want[key]
		for _, f := range []*Figures{&f, &total} {
			f.Count++
			f.Bytes += b.size
			if b.live {
				f.LiveCount++
				f.LiveBytes += b.size
			}
			if b.endedBy == "free" || b.endedBy == "realloc" {
				f.FreedCount++
			}
			if b.temporary {
				f.TemporaryCount++
			}
			f.MaxLifetimeNS = max(f.MaxLifetimeNS, b.lifetime(end))
			f.LastBornNS = max(f.LastBornNS, b.born)
		}
		want[key] = f
	}
	got := make(map[string]Figures)
	for _, g := range res.Groups {
		got[g.Key] = plainly(g.Figures)
	}
	if !maps.Equal(got, want) {
		t.Errorf("groups:\n got %v\nwant %v", got, want)
	}
	if g := plainly(res.Total); g != total {
		t.Errorf("total:\n got %v\nwant %v", g, total)
	}
}

// plainly leaves out what the model doesn't compute.
func plainly(f Figures) Figures {
	f.MeanLifetimeNS, f.FirstBornNS = 0, 0
	return f
}

// TestListsAndTimeline compares blocks, events and steps with the model.
func TestListsAndTimeline(t *testing.T) {
	n := newNaiveTrace(t, 77, 3000)
	a := atoms[0]
	a.text += ` && function ~ "parse"`
	q, err := Compile(a.text)
	if err != nil {
		t.Fatal(err)
	}
	from, to := n.end/4, n.end/2
	var blocks []*naiveBlock
	for _, b := range n.blocksIn(from, to) {
		if a.held(b, to) {
			blocks = append(blocks, b)
		}
	}
	checkRows(t, n, q, blocks, Options{From: from, To: to, By: None, Order: "lifetime", Limit: 10})
	checkEvents(t, n, q, blocks, Options{From: from, To: to, Events: true})
	checkSteps(t, n, q, blocks, Options{From: from, To: to, Timeline: 20_000_000})
}

func checkRows(t *testing.T, n *naiveTrace, q *Query, blocks []*naiveBlock, opt Options) {
	t.Helper()
	res, err := Run(n.source(), q, opt)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(blocks, func(x, y *naiveBlock) int {
		return slices.Compare([]uint64{y.lifetime(opt.To), x.born}, []uint64{x.lifetime(opt.To), y.born})
	})
	var want []Row
	for _, b := range blocks[:opt.Limit] {
		want = append(want, Row{Addr: b.addr, Size: b.size, BornNS: b.born, EndedNS: b.ended, LifetimeNS: b.lifetime(opt.To), PID: b.pid, Thread: b.thread,
			FreeThread: b.freeThread, Kind: b.kind, EndedBy: b.endedBy, Reallocs: uint16(b.chain), Temporary: b.temporary,
			Function: stackNames(b.stack)[0], File: stackNames(b.stack)[0] + ".c", Line: 10})
	}
	for i := range res.Blocks {
		res.Blocks[i].Site = 0
	}
	if !slices.Equal(res.Blocks, want) {
		t.Errorf("blocks:\n got %v\nwant %v", res.Blocks, want)
	}
	if int(res.Omitted) != len(blocks)-opt.Limit {
		t.Errorf("%d blocks omitted of %d", res.Omitted, len(blocks))
	}
}

func checkEvents(t *testing.T, n *naiveTrace, q *Query, blocks []*naiveBlock, opt Options) {
	t.Helper()
	res, err := Run(n.source(), q, opt)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, b := range blocks {
		if b.born >= opt.From {
			want = append(want, fmt.Sprintf("%012d %s %#x %d", b.born, b.kind, b.addr, b.thread))
		}
		if !b.live {
			want = append(want, fmt.Sprintf("%012d %s %#x %d", b.ended, b.endedBy, b.addr, b.freeThread))
		}
	}
	var got []string
	for _, e := range res.Events {
		got = append(got, fmt.Sprintf("%012d %s %#x %d", e.TimeNS, e.Event, e.Addr, e.Thread))
	}
	if !slices.IsSortedFunc(res.Events, func(x, y Event) int { return int(x.TimeNS) - int(y.TimeNS) }) {
		t.Error("events are not in their order")
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("events:\n got %v\nwant %v", got, want)
	}
}

func checkSteps(t *testing.T, n *naiveTrace, q *Query, blocks []*naiveBlock, opt Options) {
	t.Helper()
	res, err := Run(n.source(), q, opt)
	if err != nil {
		t.Fatal(err)
	}
	step := uint64(opt.Timeline)
	for _, got := range res.Steps {
		want, next := Step{FromNS: got.FromNS}, got.FromNS+step
		for _, b := range blocks {
			if b.born < next && (b.live || b.ended >= next) {
				want.LiveCount++
				want.LiveBytes += b.size
			}
			if b.born >= got.FromNS && b.born < next {
				want.BornCount++
				want.BornBytes += b.size
			}
			if !b.live && b.ended >= got.FromNS && b.ended < next {
				want.EndedCount++
				want.EndedBytes += b.size
			}
		}
		if got != want {
			t.Errorf("step:\n got %+v\nwant %+v", got, want)
		}
	}
	if first, last := res.Steps[0].FromNS, res.Steps[len(res.Steps)-1].FromNS; first != opt.From || last > opt.To || last+step <= opt.To {
		t.Errorf("steps from %d to %d, want %d to %d", first, last, opt.From, opt.To)
	}
}
