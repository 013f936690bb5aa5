//go:build linux && !viewer

package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/input/inputtest"
	"github.com/memtrace/memtrace/analyzer/report"
)

// playsBack names the file into which a memtrace of a test writes, after its last Report, whether its
// inputs give the same Reports to another analyzer.
const playsBack = "MEMTRACE_TEST_PLAYS_BACK"

// A playback is a tee that keeps all and plays it back.
type playback struct {
	tape   inputtest.Tape[analyzer.ReportOptions]
	config analyzer.Config
	file   string
}

// played is what it writes.
type played struct {
	Kinds   map[string]int // of inputs, by type
	Reports int
	Problem string
}

// playBackInto has sessions play back.
func playBackInto(file string) {
	newTee = func(c analyzer.Config) tee {
		c.Sample = nil // the tracer is told by the analyzer, and tells it nothing
		return &playback{config: c, file: file}
	}
}

func (p *playback) Take(in input.Input) { p.tape.Take(in) }

func (p *playback) Reported(o analyzer.ReportOptions, r *report.Report) {
	p.tape.Reported(o, reportJSON(r))
	if !o.Final {
		return
	}
	out := played{Kinds: make(map[string]int)}
	_, out.Reports = p.tape.Len()
	for in := range p.tape.Each {
		out.Kinds[fmt.Sprintf("%T", in)]++
	}
	again := analyzer.New(p.config)
	defer again.Close()
	if err := p.tape.Replay(again.Take, func(o analyzer.ReportOptions) []byte { return reportJSON(again.Report(o)) }); err != nil {
		out.Problem = err.Error()
	}
	text, err := json.Marshal(out)
	if err == nil {
		err = os.WriteFile(p.file, text, 0o644)
	}
	if err != nil {
		panic(err)
	}
}

func reportJSON(r *report.Report) []byte {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	return text
}
