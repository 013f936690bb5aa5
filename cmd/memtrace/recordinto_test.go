package main

import (
	"os"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/recording"
	"github.com/memtrace/memtrace/analyzer/report"
)

// records names the file into which a memtrace of a test records its trace.
const records = "MEMTRACE_TEST_RECORDS"

// A recordTee is a tee that records until the last Report.
type recordTee struct{ *recording.Writer }

// recordInto has sessions record.
func recordInto(file string) {
	newTee = func(c analyzer.Config) tee {
		f, err := os.Create(file)
		if err != nil {
			panic(err)
		}
		w, err := recording.NewWriter(f, recording.Header{Version: version, Config: recording.ConfigOf(c, nil)}, recording.Options{})
		if err != nil {
			panic(err)
		}
		return recordTee{w}
	}
}

func (r recordTee) Take(in input.Input) { r.Writer.Take(in) }

func (r recordTee) Reported(o analyzer.ReportOptions, _ *report.Report) {
	if o.Final {
		if err := r.Close(); err != nil {
			panic(err)
		}
	}
}
