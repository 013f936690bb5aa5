package recording

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/tracer/event"
)

// A traced is a trace of one program: what its analyzer was told, and its last Report.
type traced struct {
	inputs   []input.Input
	events   []event.Event
	analyzer *analyzer.Analyzer
	last     *report.Report
}

func (x *traced) take(in input.Input) {
	x.inputs = append(x.inputs, input.Copy(in))
	x.analyzer.Take(in)
}

var final = analyzer.ReportOptions{Final: true}

// traceOf traces a program for some steps of 1,000 events, and names its stacks at the end.
func traceOf(seed uint64, steps int) *traced {
	c, err := header.Config.Analyzer(0, 0)
	if err != nil {
		panic(err)
	}
	x := &traced{analyzer: analyzer.New(c)}
	x.take(input.Started{ProcessInfo: input.ProcessInfo{PID: 77, Comm: "program", Exe: "/bin/program", Probed: 1001}})
	for i := 1; i <= 50; i++ {
		x.take(input.Stack{Stack: event.Stack{ID: event.StackID(i) * 0x9e3779b97f4a7c15, Time: 1500, PID: 77, Bottom: true, Frames: []uint64{uint64(i) << 12, 99 << 12}}})
	}
	h := newHeap(seed)
	for range steps {
		batch := h.some(1000)
		x.events = append(x.events, batch...)
		x.take(&input.Events{Events: batch})
		x.take(input.Window{Now: h.time})
	}
	x.take(input.Instant{Now: h.time})
	for _, q := range x.analyzer.Unnamed(final) {
		x.take(input.Names{Stack: q.Stack, PID: uint32(q.PID), ID: q.ID, Last: true, Frames: []*input.Frame{
			{Function: fmt.Sprintf("f%d", q.Addrs[0]>>12), Module: "program"}, {Function: "main", Module: "program"},
		}})
	}
	x.last = x.analyzer.Report(final)
	return x
}

func asJSON(t testing.TB, r *report.Report) string {
	t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func sameReport(t testing.TB, got, want *report.Report) {
	t.Helper()
	g, w := asJSON(t, got), asJSON(t, want)
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			t.Fatalf("at byte %d: %s, want %s", i, g[max(0, i-200):min(len(g), i+200)], w[max(0, i-200):min(len(w), i+200)])
		}
	}
	if len(g) != len(w) {
		t.Fatalf("%d bytes, want %d", len(g), len(w))
	}
}

// A recording that is played to its end gives the trace's own Report.
func TestReplayGivesTheReport(t *testing.T) {
	t.Parallel()
	x := traceOf(1, 300)
	defer x.analyzer.Close()
	got, _, err := open(t, record(t, Options{}, x.inputs...)).ReportAt(End, Rooms{}, final)
	if err != nil {
		t.Fatal(err)
	}
	sameReport(t, got, x.last)
}

// liveAt is what lives after the events until an instant, by the function that allocated it: blocks and bytes.
func liveAt(events []event.Event, at uint64) map[string][2]uint64 {
	type block struct {
		function string
		size     uint64
	}
	live := make(map[uint64]block)
	for _, e := range events {
		if e.Time > at {
			break
		}
		function := fmt.Sprintf("f%d", uint64(e.Stack)*0xf1de83e19937733d) // the inverse of what makes the IDs
		switch e.Kind {
		case event.Alloc:
			live[e.Addr] = block{function, e.Size}
		case event.Free:
			delete(live, e.Addr)
		case event.Realloc:
			delete(live, e.Old)
			live[e.Addr] = block{function, e.Size}
		}
	}
	out := make(map[string][2]uint64)
	for _, b := range live {
		sum := out[b.function]
		out[b.function] = [2]uint64{sum[0] + 1, sum[1] + b.size}
	}
	return out
}

// At any instant a recording shows what a naive count of the events until then does, with the names that came later.
func TestAnyInstant(t *testing.T) {
	t.Parallel()
	x := traceOf(2, 200)
	defer x.analyzer.Close()
	r := open(t, record(t, Options{}, x.inputs...))
	random := newHeap(9).r
	for range 60 {
		e := x.events[random.IntN(len(x.events))]
		at := e.Time + random.Uint64N(3) - 1
		got, _, err := r.ReportAt(at, Rooms{}, final)
		if err != nil {
			t.Fatal(err)
		}
		live := make(map[string][2]uint64)
		for _, s := range got.Sites {
			if s.LiveCount > 0 {
				live[s.Function] = [2]uint64{s.LiveCount, s.LiveBytes}
			}
		}
		if want := liveAt(x.events, at); !maps.Equal(live, want) {
			t.Fatalf("at %d: %v, want %v", at, live, want)
		}
		if got.WindowNS != at-header.Config.Start {
			t.Errorf("at %d: a window of %d ns", at, got.WindowNS)
		}
	}
}

// Where a block is missing, the Report says so, the process has lost events, and names are those of their stacks.
func TestReplayWithAGap(t *testing.T) {
	t.Parallel()
	x := traceOf(3, 400)
	defer x.analyzer.Close()
	file := record(t, Options{}, x.inputs...)
	at, heads := blocksOf(t, file)
	hit := 0
	for i, h := range heads {
		if h.kind == kindInputs && h.stacks == 0 && h.events > 0 {
			hit = i
			break
		}
	}
	file[at[hit]+headSize+5] ^= 1
	got, _, err := open(t, file).ReportAt(End, Rooms{}, final)
	if err != nil {
		t.Fatal(err)
	}
	lost := got.Processes[0].Loss
	if lost == nil || lost.Events != uint64(heads[hit].events) || !strings.Contains(fmt.Sprint(got.Warnings), "the recording lacks what happened") {
		t.Errorf("lost %+v, warnings %q", lost, got.Warnings)
	}
	names := make(map[string]bool)
	for _, s := range got.Sites {
		if s.Stack[0].Function != s.Function || s.Stack[1].Function != "main" {
			t.Errorf("site %d is %+v", s.ID, s.Stack[0])
		}
		names[s.Function] = true
	}
	if len(names) != len(x.last.Sites) {
		t.Errorf("%d functions of %d", len(names), len(x.last.Sites))
	}
}

// Without the block that has its stacks, a recording shows no name, rather than another's.
func TestReplayWithoutStacks(t *testing.T) {
	t.Parallel()
	x := traceOf(4, 400)
	defer x.analyzer.Close()
	more := someStack(newHeap(4).r, 5000)
	more.Frames = []uint64{123 << 12}
	inputs := append([]input.Input{x.inputs[0], more, input.Window{Now: 3e9}}, x.inputs[1:]...)
	file := record(t, Options{}, inputs...)
	at, _ := blocksOf(t, file)
	file[at[2]+headSize+5] ^= 1 // the first one after the two headers
	r := open(t, file)
	got, _, err := r.ReportAt(End, Rooms{}, final)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Processes) != 0 || len(got.Sites) != 0 {
		t.Errorf("%d processes, %d sites of a process that nothing told of", len(got.Processes), len(got.Sites))
	}
}

// What a Report has beside the analyzer's is that of the last one before the instant.
func TestShown(t *testing.T) {
	t.Parallel()
	x := traceOf(5, 30)
	defer x.analyzer.Close()
	f, w := writeInMemory(t, Options{})
	for _, in := range x.inputs {
		w.Take(in)
		if v, ok := in.(input.Window); ok {
			r := &report.Report{Warnings: []string{"the analyzer's", fmt.Sprintf("until %d", v.Now)}, Notes: []string{fmt.Sprintf("note of %d", v.Now)}, Pressure: &report.Pressure{Phases: 1, SampledNS: v.Now}}
			w.Shown(v.Now, r, 1)
		}
	}
	if err := w.Report(x.events[len(x.events)-1].Time, x.last); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r := open(t, f.Bytes())
	for i := 4; i < len(x.events); i += 1111 {
		at := x.events[i].Time
		got, _, err := r.ReportAt(at, Rooms{}, final)
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		note := ""
		for _, in := range x.inputs {
			if v, ok := in.(input.Window); ok && v.Now <= at {
				want, note = []string{fmt.Sprintf("until %d", v.Now)}, fmt.Sprintf("note of %d", v.Now)
			}
		}
		if note != "" && !slices.Contains(got.Notes, note) {
			t.Errorf("at %d: notes %q, not %q", at, got.Notes, note)
		}
		if fmt.Sprint(got.Warnings) != fmt.Sprint(want) || (len(want) > 0) != (got.Pressure != nil) {
			t.Errorf("at %d: %q, want %q; %+v", at, got.Warnings, want, got.Pressure)
		}
	}
	text, ok := r.Stored()
	stored := new(report.Report)
	if err := json.Unmarshal(text, stored); !ok || err != nil {
		t.Fatal(ok, err)
	}
	sameReport(t, stored, x.last)
}

// What an instant is by the two clocks.
func TestClocks(t *testing.T) {
	t.Parallel()
	h := Header{Clock: Clock{Wall: 1e18, Monotonic: 5e9}}
	for mono, wall := range map[uint64]int64{5e9: 1e18, 6e9: 1e18 + 1e9, 1e9: 1e18 - 4e9} {
		if got := h.Time(mono); got.UnixNano() != wall || h.Monotonic(got) != mono {
			t.Errorf("%d is %d and %d", mono, got.UnixNano(), h.Monotonic(got))
		}
	}
	if got := h.Monotonic(h.Time(0).Add(-1)); got != 0 {
		t.Errorf("before the clock began: %d", got)
	}
}

// Events come later than windows of the same time: what lives at an instant is that of the events until then, whatever
// stands between them.
func TestEventsComeLate(t *testing.T) {
	t.Parallel()
	x := traceOf(7, 60)
	defer x.analyzer.Close()
	var inputs []input.Input
	for _, in := range x.inputs {
		if v, ok := in.(*input.Events); ok {
			ahead := v.Events[len(v.Events)-1].Time + 3e9
			inputs = append(inputs, input.Window{Now: ahead}, input.Memory{PID: 77, Now: ahead}, input.ExitCode{PID: 77, Code: 3})
		}
		inputs = append(inputs, in)
	}
	r := open(t, record(t, Options{}, inputs...))
	for i := 10; i < len(x.events); i += 777 {
		at := x.events[i].Time
		got, _, err := r.ReportAt(at, Rooms{}, final)
		if err != nil {
			t.Fatal(err)
		}
		live := make(map[string][2]uint64)
		for _, s := range got.Sites {
			if s.LiveCount > 0 {
				live[s.Function] = [2]uint64{s.LiveCount, s.LiveBytes}
			}
		}
		if want := liveAt(x.events, at); !maps.Equal(live, want) {
			t.Fatalf("at %d: %v, want %v", at, live, want)
		}
		if got.Processes[0].Usage.SampledNS != 0 || got.Processes[0].ExitCode != nil {
			t.Fatalf("at %d: what was read and known later: %+v", at, got.Processes[0])
		}
	}
}
