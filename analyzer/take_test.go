package analyzer

import (
	"sync"

	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/tracer/event"
)

// What tests say in short.

func (a *Analyzer) Apply(events []event.Event) {
	in := lent.Get().(*input.Events)
	in.Events = events
	a.Take(in)
	lent.Put(in)
}

var lent = sync.Pool{New: func() any { return new(input.Events) }}

func (a *Analyzer) AddStack(s event.Stack)        { a.Take(input.Stack{Stack: s}) }
func (a *Analyzer) AddProcess(info ProcessInfo)   { a.Take(input.Started{ProcessInfo: info}) }
func (a *Analyzer) Describe(info ProcessInfo)     { a.Take(input.Described{ProcessInfo: info}) }
func (a *Analyzer) SetExitCode(pid uint32, n int) { a.Take(input.ExitCode{PID: pid, Code: n}) }
func (a *Analyzer) SetLoss(l event.Loss)          { a.Take(input.Loss{Loss: l}) }
func (a *Analyzer) SetLeftOut(l report.LeftOut)   { a.Take(input.LeftOut(l)) }
func (a *Analyzer) Pause()                        { a.Take(input.Pause{}) }
func (a *Analyzer) Window(now uint64)             { a.Take(input.Window{Now: now}) }

func (a *Analyzer) Conclude(c *Check) {
	if v, err := a.Verdicts(c); err == nil {
		a.Take(v)
	}
}

func (a *Analyzer) Repair(r *Repair) {
	if in, ok := a.Found(r); ok {
		a.Take(in)
	}
}

// A symbolizer names the code at return addresses.
type symbolizer interface {
	Frames(pid int, addrs []uint64, at uint64) []*report.Frame
}

func (a *Analyzer) reportAt(now uint64, opt ReportOptions, symb symbolizer) *report.Report {
	a.Take(input.Instant{Now: now})
	if symb != nil {
		a.answer(a.Unnamed(opt), symb)
	}
	return a.Report(opt)
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
		a.Take(in)
	}
}

func (a *Analyzer) AddProcessLoss(pid uint32, events, first, last uint64) (known bool) {
	known = a.Knows(pid, last)
	a.Take(input.ProcessLoss{PID: pid, Events: events, First: first, Last: last})
	return known
}
