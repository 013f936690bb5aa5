package query

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/tracer/event"
)

// wildStream has all that makes counting hard: forks with copies, execs, exits, samples, overwritten blocks.
func wildStream(seed uint64) (inputs []input.Input, end uint64) {
	r := rand.New(rand.NewPCG(seed, 9))
	var now uint64
	for pid := uint32(1); pid < 4; pid++ {
		inputs = append(inputs, input.Started{ProcessInfo: input.ProcessInfo{PID: pid, Comm: "wild"}})
	}
	for range 40 {
		batch := make([]event.Event, 0, 100)
		for range 100 {
			now += r.Uint64N(1 << 20)
			e := event.Event{
				Time: start + now, PID: 1 + r.Uint32N(6), Addr: 16 * (1 + r.Uint64N(60)), Size: r.Uint64N(9000), Stack: event.StackID(1 + r.Uint64N(9)),
				Kind: []event.Kind{event.Alloc, event.Alloc, event.Free, event.Realloc}[r.IntN(4)],
			}
			e.TID = e.PID*10 + r.Uint32N(2)
			if r.IntN(2) == 0 {
				e.Child = 4096 // the interval of a sample
			}
			switch r.IntN(80) {
			case 0:
				e.Kind, e.Child = event.Fork, 4+r.Uint32N(3)
			case 1:
				e.Kind, e.Child = event.Exec, 0
			case 2:
				e.Kind, e.Child = event.Exit, 0
			}
			if e.Kind == event.Realloc {
				e.Old, e.Began = 16*(1+r.Uint64N(60)), e.Time-r.Uint64N(1<<20)
			}
			batch = append(batch, e)
		}
		inputs = append(inputs, &input.Events{Events: batch})
	}
	return append(inputs, input.Instant{Now: start + now}), now
}

// TestAgreesWithReport compares the figures of each site with those of the Report.
func TestAgreesWithReport(t *testing.T) {
	for seed := range uint64(10) {
		inputs, end := wildStream(seed)
		config := analyzer.Config{Start: start, FollowForks: true, Seed: [2]uint64{seed, 7}}
		play := func(a *analyzer.Analyzer, _, _ uint64) ([]string, error) {
			for _, in := range inputs {
				a.Take(in)
			}
			return nil, nil
		}
		a := analyzer.New(config)
		_, _ = play(a, 0, 0)
		want := a.Report(analyzer.ReportOptions{Final: true})
		a.Close()
		src := Source{Config: config, Play: play, End: end}
		own := answer(t, src, `kind != "fork"`, Options{})
		all := answer(t, src, "", Options{})
		compareWithReport(t, want, own, all)
		if own.Total.Estimate == nil || own.Total.Count == 0 {
			t.Errorf("no estimates: %+v", own.Total)
		}
		if t.Failed() {
			t.Fatalf("with seed %d", seed)
		}
	}
}

func answer(t *testing.T, src Source, expression string, opt Options) *Result {
	t.Helper()
	q, err := Compile(expression)
	if err != nil {
		t.Fatal(err)
	}
	res, err := Run(src, q, opt)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func figuresBySite(r *Result) map[int]Figures {
	out := make(map[int]Figures)
	for _, g := range r.Groups {
		out[int(*g.Site)] = g.Figures
	}
	return out
}

// compareWithReport compares sites: own is without the copies of forks, which a Report counts as live alone.
func compareWithReport(t *testing.T, want *report.Report, own, all *Result) {
	t.Helper()
	born, both := figuresBySite(own), figuresBySite(all)
	for _, s := range want.Sites {
		f := born[s.ID]
		if f.Count != s.AllocCount || f.Bytes != s.AllocBytes || f.TemporaryCount != s.TemporaryCount {
			t.Errorf("site %d: %+v, the Report has %d allocations of %d bytes, %d temporary", s.ID, f, s.AllocCount, s.AllocBytes, s.TemporaryCount)
		}
		f = both[s.ID]
		if f.LiveCount != s.LiveCount || f.LiveBytes != s.LiveBytes || f.FreedCount != s.FreeCount {
			t.Errorf("site %d: %+v, the Report has %d live of %d bytes, %d freed", s.ID, f, s.LiveCount, s.LiveBytes, s.FreeCount)
		}
	}
	if len(both) != len(want.Sites) {
		t.Errorf("%d sites, the Report has %d", len(both), len(want.Sites))
	}
}

// TestNoRoom sees that what finds no room is counted, in both ways through a trace.
func TestNoRoom(t *testing.T) {
	n := newNaiveTrace(t, 3, 2000)
	for _, expression := range []string{"size >= 0", `function ~ "parse"`} {
		q, err := Compile(expression)
		if err != nil {
			t.Fatal(err)
		}
		r := &runner{query: q, opt: Options{By: "lifetime"}, source: n.source(), end: n.end, grouping: groupingOf("lifetime"), room: 2}
		res, err := r.run()
		if err != nil {
			t.Fatal(err)
		}
		if res.NoRoom == nil || len(res.Groups) != 2 {
			t.Fatalf("%s: %d groups, no room for %v", expression, len(res.Groups), res.NoRoom)
		}
		sum := res.NoRoom.Count
		for _, g := range res.Groups {
			sum += g.Count
		}
		if sum != uint64(len(n.all)) || res.Total.Count != sum {
			t.Errorf("%s: %d blocks, in all %d, want %d", expression, sum, res.Total.Count, len(n.all))
		}
		var text strings.Builder
		if err := Write(&text, res, "text", 0); err != nil || !strings.Contains(text.String(), "than there is room for") {
			t.Errorf("%v: %s", err, text.String())
		}
	}
}
