//go:build linux && !viewer

package main

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/analyzer/report"
)

// turnstile is a writer that stands still until it is opened.
type turnstile struct {
	entered chan struct{}
	open    chan struct{}
	bytes.Buffer
}

func (g *turnstile) Write(b []byte) (int, error) {
	g.entered <- struct{}{}
	<-g.open
	return g.Buffer.Write(b)
}

func TestSlowOutputDoesNotHoldUpTheTrace(t *testing.T) {
	g := &turnstile{entered: make(chan struct{}, 8), open: make(chan struct{})}
	s := &stream{to: g, opt: render.Options{Format: render.JSON, Compact: true}}
	s.start()
	s.interval(&report.Report{WindowNS: 1})
	<-g.entered // the first is being written, and stuck
	for n := range uint64(3) {
		s.interval(&report.Report{WindowNS: 2 + n}) // one waits, two are left out
	}
	if s.skipped != 2 {
		t.Errorf("%d Reports left out, want 2", s.skipped)
	}
	close(g.open)
	if err := s.final(&report.Report{WindowNS: 9, Final: true}); err != nil {
		t.Fatal(err)
	}
	var got []uint64
	for line := range bytes.Lines(g.Bytes()) {
		var r report.Report
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("parse %q: %v", line, err)
		}
		got = append(got, r.WindowNS)
	}
	if len(got) != 3 || got[0] != 1 || got[1] != 2 || got[2] != 9 {
		t.Errorf("wrote Reports %v, want 1, 2 and the last", got)
	}
}
