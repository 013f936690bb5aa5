package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/recording"
	"github.com/memtrace/memtrace/analyzer/report"
)

// The last Report of somebody else's recording is checked as any file with a Report is: one that no memtrace writes
// is made again.
func TestForgedLastReport(t *testing.T) {
	t.Parallel()
	for name, forged := range map[string]report.Report{
		"null frame":    {Schema: report.Schema, Sites: []report.Site{{Stack: []*report.Frame{nil}}}},
		"unknown leak":  {Schema: report.Schema, Outcome: &report.Outcome{Rules: []report.RuleDone{{Leaks: []int{7}}}}},
		"later version": {Schema: "memtrace.report/99"},
		"large":         {Schema: report.Schema, Processes: make([]report.Process, 20_000)},
	} {
		path := filepath.Join(t.TempDir(), "forged.memtrace")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		config := analyzer.Config{Start: 1000}
		w, err := recording.NewWriter(f, recording.Header{Version: "test", Config: recording.ConfigOf(config, nil)}, recording.Options{})
		if err != nil {
			t.Fatal(err)
		}
		w.Take(input.Started{ProcessInfo: input.ProcessInfo{PID: 42, Comm: "real"}})
		w.Take(input.Window{Now: 2000})
		if err := w.Report(2000, &forged); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if f, err = os.Open(path); err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		out, _, err := recordedReport(t.Context(), f, path, "", leastMemory)
		if err != nil || len(out.Processes) != 1 || out.Processes[0].Comm != "real" {
			t.Errorf("%s: %+v, %v", name, out, err)
		}
	}
}
