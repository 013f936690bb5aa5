package analyzer

import (
	"encoding/json"
	"sync"
	"testing"

	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/input/inputtest"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/tracer/event"
)

// tapes are of the analyzers of tests that are played back as they end.
var tapes sync.Map

// onTape has an analyzer play back as the test ends: a fresh one that is told the same has to make
// the same Reports.
func onTape(t *testing.T, a *Analyzer) {
	tape := new(inputtest.Tape[ReportOptions])
	tapes.Store(a, tape)
	t.Cleanup(func() {
		if _, ok := tapes.LoadAndDelete(a); !ok || t.Failed() {
			return
		}
		book, config := newLifeBook(t), a.config
		config.Observer = book
		again := New(config)
		defer again.Close()
		if err := tape.Replay(again.Take, func(o ReportOptions) []byte { return asJSON(again.Report(o)) }); err != nil {
			t.Errorf("played back: %v", err)
		}
		book.compare(again)
	})
}

// offTape is for tests that change an analyzer's state by other means than inputs.
func offTape(a *Analyzer) { tapes.Delete(a) }

// give has an analyzer take an input, on tape.
func (a *Analyzer) give(in input.Input) {
	if tape, ok := tapes.Load(a); ok {
		tape.(*inputtest.Tape[ReportOptions]).Take(in)
	}
	a.Take(in)
}

func asJSON(r *report.Report) []byte {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	return text
}

// What tests say in short.

func (a *Analyzer) Apply(events []event.Event) {
	in := lent.Get().(*input.Events)
	in.Events = events
	a.give(in)
	lent.Put(in)
}

var lent = sync.Pool{New: func() any { return new(input.Events) }}

func (a *Analyzer) AddStack(s event.Stack)        { a.give(input.Stack{Stack: s}) }
func (a *Analyzer) AddProcess(info ProcessInfo)   { a.give(input.Started{ProcessInfo: info}) }
func (a *Analyzer) Describe(info ProcessInfo)     { a.give(input.Described{ProcessInfo: info}) }
func (a *Analyzer) SetExitCode(pid uint32, n int) { a.give(input.ExitCode{PID: pid, Code: n}) }
func (a *Analyzer) SetLoss(l event.Loss)          { a.give(input.Loss{Loss: l}) }
func (a *Analyzer) SetLeftOut(l report.LeftOut)   { a.give(input.LeftOut(l)) }
func (a *Analyzer) Pause()                        { a.give(input.Pause{}) }
func (a *Analyzer) Window(now uint64)             { a.give(input.Window{Now: now}) }

func (a *Analyzer) Conclude(c *Check) {
	if v, err := a.Verdicts(c); err == nil {
		a.give(v)
	}
}

func (a *Analyzer) Repair(r *Repair) {
	if in, ok := a.Found(r); ok {
		a.give(in)
	}
}

// A symbolizer names the code at return addresses.
type symbolizer interface {
	Frames(pid int, addrs []uint64, at uint64) []*report.Frame
}

func (a *Analyzer) reportAt(now uint64, opt ReportOptions, symb symbolizer) *report.Report {
	a.give(input.Instant{Now: now})
	if symb != nil {
		a.answer(a.Unnamed(opt), symb)
	}
	r := a.Report(opt)
	if tape, ok := tapes.Load(a); ok {
		tape.(*inputtest.Tape[ReportOptions]).Reported(opt, asJSON(r))
	}
	return r
}

func (a *Analyzer) nameStacks(pid uint32, symb symbolizer, through func(addr uint64) bool) {
	a.answer(a.UnnamedOf(pid, through), symb)
}

func (a *Analyzer) answer(stacks []UnnamedStack, symb symbolizer) {
	for _, u := range stacks {
		in := input.Names{Stack: u.Stack, Last: u.Last}
		for _, f := range symb.Frames(u.PID, u.Addrs, u.At) {
			in.Frames = append(in.Frames, (*input.Frame)(f))
		}
		a.give(in)
	}
}

func (a *Analyzer) AddProcessLoss(pid uint32, events, first, last uint64) (known bool) {
	known = a.Knows(pid, last)
	a.give(input.ProcessLoss{PID: pid, Events: events, First: first, Last: last})
	return known
}
