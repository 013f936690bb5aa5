// Package inputtest records a stream of inputs in memory and plays it back, for tests.
package inputtest

import (
	"bytes"
	"fmt"

	"github.com/memtrace/memtrace/analyzer/input"
)

// A Tape holds what an analyzer was told, and the Reports that it made meanwhile by options O. The zero
// value is empty. It keeps all of a trace, so it is for short ones.
type Tape[O any] struct {
	steps []step[O]
}

// A step is an input or, where that is nil, a Report.
type step[O any] struct {
	in      input.Input
	options O
	report  []byte // as JSON
}

// Take adds a copy of an input.
func (t *Tape[O]) Take(in input.Input) {
	t.steps = append(t.steps, step[O]{in: input.Copy(in)})
}

// Reported adds a Report, as JSON, that was made of all that was taken so far.
func (t *Tape[O]) Reported(options O, json []byte) {
	t.steps = append(t.steps, step[O]{options: options, report: json})
}

// Len is how many inputs and Reports there are.
func (t *Tape[O]) Len() (inputs, reports int) {
	for _, s := range t.steps {
		if s.in == nil {
			reports++
		} else {
			inputs++
		}
	}
	return inputs, reports
}

// Each yields the inputs in their order.
func (t *Tape[O]) Each(yield func(input.Input) bool) {
	for _, s := range t.steps {
		if s.in != nil && !yield(s.in) {
			return
		}
	}
}

// Replay gives all inputs to a fresh analyzer and has it make each Report again. It fails at the first that
// is not the same to the byte.
func (t *Tape[O]) Replay(take func(input.Input), report func(O) []byte) error {
	made := 0
	for at, s := range t.steps {
		if s.in != nil {
			take(s.in)
			continue
		}
		made++
		if got := report(s.options); !bytes.Equal(got, s.report) {
			return fmt.Errorf("after %d inputs, Report %d differs: %s", at+1-made, made, difference(got, s.report))
		}
	}
	return nil
}

// difference shows where two texts differ first.
func difference(got, want []byte) string {
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	around := func(b []byte) []byte { return b[max(at-200, 0):min(at+100, len(b))] }
	return fmt.Sprintf("at byte %d\n played back: …%s…\n live:        …%s…", at, around(got), around(want))
}
