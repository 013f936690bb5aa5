package query

import (
	"testing"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/report"
)

func sampleSubject(q *Query) *subject {
	frame := &report.Frame{Function: "parse_line", File: "parse.c", Line: 3, Module: "/bin/prog"}
	return &subject{
		life: &analyzer.Life{Process: 1, PID: 3, Addr: 4096, Size: 5000, Born: 1000, Since: 1000, Ended: 9000, Cause: analyzer.ByFree, TID: 3},
		now:  9000, end: 10_000, birth: birth{thread: 3, cause: analyzer.ByAlloc},
		site: &site{function: "parse_line", file: "parse.c", module: "/bin/prog", comm: "prog", name: analyzer.SiteName{Frames: []*report.Frame{frame}}, memo: make([]memo, q.memos)},
	}
}

// BenchmarkPredicate is the time that an expression takes a block.
func BenchmarkPredicate(b *testing.B) {
	for _, source := range []string{
		"size > 4KiB", "lifetime < 1ms && size > 4KiB", `lifetime < 1ms && size > 4KiB && (function ~ "parse" || thread == 3)`,
	} {
		b.Run(source, func(b *testing.B) {
			q, err := Compile(source)
			if err != nil {
				b.Fatal(err)
			}
			s := sampleSubject(q)
			for b.Loop() {
				q.block(s)
			}
		})
	}
}

// BenchmarkRun is the time of one event of a stream, by the analyzer alone and with a query.
func BenchmarkRun(b *testing.B) {
	n := newNaiveTrace(&testing.T{}, 1, 100_000)
	var kept []input.Input
	events := 0
	for in := range n.tape.Each {
		kept = append(kept, in)
		if v, ok := in.(*input.Events); ok {
			events += len(v.Events)
		}
	}
	play := func(a *analyzer.Analyzer, _, _ uint64) ([]string, error) {
		for _, in := range kept {
			a.Take(in)
		}
		return nil, nil
	}
	src := Source{Config: analyzer.Config{Start: start, Seed: [2]uint64{1, 2}}, End: n.end, Play: play}
	b.Run("analyzer alone", func(b *testing.B) {
		for b.Loop() {
			a := analyzer.New(src.Config)
			_, _ = play(a, 0, 0)
			a.Close()
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*events), "ns/event")
	})
	for name, opt := range map[string]Options{"by site": {}, "by thread": {By: "thread"}, "blocks": {By: None, Limit: 100}} {
		b.Run(name, func(b *testing.B) {
			q, _ := Compile("lifetime < 1ms && size > 4KiB")
			for b.Loop() {
				if _, err := Run(src, q, opt); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*events), "ns/event")
		})
	}
}
