//go:build integration && services

package main

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/query"
	"github.com/memtrace/memtrace/analyzer/recording"
	"github.com/memtrace/memtrace/analyzer/report"
)

// Recordings of real programs say the same of random instants from savepoints as from their beginning, to the byte; and
// what lived before and after a span is what the Reports of its two ends say.
func TestRealRecordingsAtRandomInstants(t *testing.T) {
	t.Parallel()
	source := filepath.Join(t.TempDir(), "a.c")
	if err := os.WriteFile(source, []byte("#include <stdio.h>\n#include <stdlib.h>\nint main(void) { puts(getenv(\"HOME\")); return 0; }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const script = "import json\nd = [{'k%d' % (i % 97): str(i)} for i in range(2000)]\nfor i in range(2): e = json.loads(json.dumps(d))"
	for name, program := range map[string][]string{
		"compiler": {need(t, "gcc"), "-O2", "-c", source, "-o", os.DevNull},
		"python":   {need(t, "env"), "PYTHONMALLOC=malloc", need(t, "python3"), "-c", script},
		"service":  {need(t, "timeout"), "4", testProgram("demo_service"), "run"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), name+".memtrace")
			// Without samples: their counts are rounded, of each site here and of all there.
			if out, code := finishLeaks(t, memtraceCommand(t, append([]string{"record", "-o", file, "--back-pressure", "0", "--"}, program...)...)); code != 0 && code != 124 {
				t.Fatalf("exit code %d: %s", code, out)
			}
			points := recording.NewSavepoints(1<<30, 1)
			at := func(when uint64, s *recording.Savepoints) *report.Report {
				r := openRecording(t, file)
				r.Savepoints = s
				out, _, err := r.ReportAt(when, recording.Rooms{}, analyzer.ReportOptions{Final: true, Sort: defaultSort})
				if err != nil {
					t.Fatal(err)
				}
				return out
			}
			at(recording.End, points)
			first, last := openRecording(t, file).Span()
			random := rand.New(rand.NewPCG(1, 2))
			var from uint64
			var before *report.Report
			for range 5 {
				when := first + random.Uint64N(last-first)
				want := at(when, nil)
				if got := at(when, points); !bytes.Equal(reportJSON(got), reportJSON(want)) {
					t.Fatalf("at %d of %d to %d from a savepoint: %.2000s\nwant %.2000s", when, first, last, reportJSON(got), reportJSON(want))
				}
				if before != nil && from < when {
					compareSpan(t, file, from-first, when-first, before, want)
				}
				from, before = when, want
			}
		})
	}
}

func compareSpan(t *testing.T, file string, from, to uint64, before, after *report.Report) {
	t.Helper()
	src, err := querySource(openRecording(t, file), 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	span, err := query.RunSpan(src, query.SpanOptions{From: from, To: to})
	if err != nil {
		t.Fatal(err)
	}
	var want [2]struct{ bytes, count uint64 }
	for i, r := range []*report.Report{before, after} {
		for j := range r.Sites {
			want[i].bytes += r.Sites[j].LiveBytes
			want[i].count += r.Sites[j].LiveCount
		}
	}
	got := span.Total
	if got.BeforeBytes != want[0].bytes || got.BeforeCount != want[0].count || got.LiveBytes != want[1].bytes || got.LiveCount != want[1].count {
		t.Errorf("from %d to %d: %+v, want %+v", from, to, got, want)
	}
}
