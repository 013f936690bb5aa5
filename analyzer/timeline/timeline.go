package timeline

import (
	"fmt"
	"time"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/query"
)

// A Source is a trace that can be gone through from its beginning.
type Source struct {
	Config analyzer.Config
	End    uint64 // when it ended
	// Play gives the inputs until a time (ns, CLOCK_MONOTONIC) to an Analyzer of that Config, and tells of each.
	Play func(a *analyzer.Analyzer, until uint64, told func(input.Input)) (notes []string, err error)
}

// Options say what is looked at. The zero value is all of a trace.
type Options struct {
	From, To uint64 // To 0: the end
	Steps    int    // so many at most; 0: 600
	PID      uint32 // of this process alone; 0: of all
}

// A Timeline is the course of a trace.
type Timeline struct {
	FromNS uint64       `json:"from_ns"`
	ToNS   uint64       `json:"to_ns"`
	StepNS uint64       `json:"step_ns"`
	Steps  []query.Step `json:"steps"` // the last one is of the very end
	// Parts names what Sample.Parts are, in their order: the words of report.RSSBy.
	Parts   []string `json:"parts"`
	Samples []Sample `json:"samples"` // at most one a step: the one with the largest RSS
	Read    int      `json:"read"`    // so many samples were looked at
	Faults  []uint64 `json:"faults"`  // page faults in each step of StepNS since FromNS
	Marks   []Mark   `json:"marks"`
	Bands   []Band   `json:"bands"`
	Omitted int      `json:"omitted"` // marks and bands that were too many
	Notes   []string `json:"notes"`
}

// A Sample is the memory of the processes at one time, by the last reading of each.
type Sample struct {
	AtNS  uint64   `json:"at_ns"`
	RSS   uint64   `json:"rss"`
	Parts []uint64 `json:"parts"` // add up to RSS
}

// A Mark is something that happened: start, fork, exec, exit or check.
type Mark struct {
	AtNS uint64 `json:"at_ns"`
	What string `json:"what"`
	PID  uint32 `json:"pid"`
	Text string `json:"text"` // made by memtrace, but for names of processes: to be shown as text
}

// A Band is a time in which something was not seen: lost or paused.
type Band struct {
	FromNS uint64 `json:"from_ns"`
	ToNS   uint64 `json:"to_ns"`
	What   string `json:"what"`
	PID    uint32 `json:"pid,omitempty"`
	Events uint64 `json:"events,omitempty"` // lost; 0: not known
}

const defaultSteps = 600

// Make goes through a trace once.
func Make(src Source, o Options) (*Timeline, error) {
	to := src.End
	if o.To != 0 && o.To < to {
		to = o.To
	}
	if o.From >= to {
		return nil, fmt.Errorf("make a timeline from %v to %v: nothing is between them", time.Duration(o.From), time.Duration(to))
	}
	steps := uint64(defaultSteps)
	if o.Steps > 0 {
		steps = uint64(o.Steps)
	}
	c := newCollector(src.Config.Start, o, to, max(1, (to-o.From+steps-1)/steps))
	expression := ""
	if o.PID != 0 {
		expression = fmt.Sprintf("pid == %d", o.PID)
	}
	q, err := query.Compile(expression)
	if err != nil {
		return nil, err
	}
	res, err := query.Run(query.Source{Config: src.Config, End: src.End, Play: func(a *analyzer.Analyzer, _, until uint64) ([]string, error) { // the inputs are told from the beginning on
		c.begin()
		return src.Play(a, until, c.take)
	}}, q, query.Options{From: o.From, To: to, Timeline: time.Duration(c.step)})
	if err != nil {
		return nil, err
	}
	t := c.timeline()
	t.Steps, t.Notes = res.Steps, append(t.Notes, res.Notes...)
	return t, nil
}
