package gate

import (
	"fmt"
	"slices"
	"time"

	"github.com/memtrace/memtrace/analyzer/report"
)

// Options of a Judge.
type Options struct {
	Rules  Rules
	WarmUp time.Duration // growth, candidates and limits count only after it
	// Known are the leaks of a baseline; nil: there is none.
	Known *Baseline
	// MinGrowth is how long a trace must last for growth to be told; 0: any.
	MinGrowth time.Duration
	// MinLooks is how many looks at a process without a probe on free a kind "growing" takes; 0: any.
	MinLooks uint64
}

// A Judge decides whether a job passes.
type Judge struct {
	opt      Options
	base     *base // nil until the warm-up is over
	measures []measure
	courses  map[program]*course // of those that run
}

// New returns a Judge of a trace that begins.
func New(o Options) *Judge {
	j := &Judge{opt: o, measures: make([]measure, len(o.Rules)), courses: make(map[program]*course)}
	if o.WarmUp == 0 {
		j.base = &base{}
	}
	return j
}

// Observe takes the figures of a Report of the trace. The more often it is
// called, the less is missed of what goes up and down.
func (j *Judge) Observe(r *report.Report) {
	if j.base == nil {
		if r.WindowNS < uint64(j.opt.WarmUp) {
			return
		}
		j.base = &base{uint64(j.opt.WarmUp), make(map[program]*report.Heap)}
		for i := range r.Processes {
			heap := r.Processes[i].Heap
			j.base.heaps[programOf(&r.Processes[i])] = &heap
		}
	}
	j.follow(r)
	for i := range j.opt.Rules {
		j.measure(i, r)
	}
}

// measure brings the figure of a limit up to date.
func (j *Judge) measure(i int, r *report.Report) {
	rule, m := &j.opt.Rules[i], &j.measures[i]
	if rule.figure == nil || rule.figure.read == nil {
		return
	}
	if rule.figure.sum {
		*m = measure{known: rule.limit.Subject == ""}
	}
	for k := range r.Processes {
		p := &r.Processes[k]
		v, known := rule.figure.read(p, j.base)
		switch {
		case !known || !named(p, rule.limit.Subject):
		case rule.figure.sum:
			m.value, m.known = m.value+v, true
		default:
			m.raise(v, p)
		}
	}
}

// A Met is a limit that the Reports so far exceed.
type Met struct {
	Rule   string // as it was written
	Figure string // what it came to, and where
}

// Met lists the limits that are exceeded so far; those on leaks are known at the end alone.
func (j *Judge) Met() (out []Met) {
	for i := range j.opt.Rules {
		if rule := &j.opt.Rules[i]; rule.figure == nil || rule.figure.kinds {
			continue
		}
		if done := j.limit(i); done.Status == report.RuleFailed {
			out = append(out, Met{done.Rule, done.Figure})
		}
	}
	return out
}

// Evidence is what a Judge cannot know from the Reports.
type Evidence struct {
	Problems   []string      // what kept the check from being made
	Suppressed []report.Leak // were taken out of the last Report
	Unused     []string      // suppressions that matched nothing
}

// Decide observes the last Report, decides by it, and writes its Outcome into it.
// The Report's stacks should be named.
func (j *Judge) Decide(r *report.Report, e Evidence) *report.Outcome {
	j.Observe(r)
	out := &report.Outcome{Rules: []report.RuleDone{}, Problems: append([]string{}, e.Problems...),
		Unused: append([]string{}, e.Unused...), Gone: []report.OldLeak{}}
	for i := range e.Suppressed {
		out.Suppressed.Add(&e.Suppressed[i])
	}
	j.opt.Known.mark(r, e.Suppressed, out)
	for i := range j.opt.Rules {
		rule := &j.opt.Rules[i]
		if rule.figure == nil || rule.figure.kinds {
			out.Rules = append(out.Rules, j.leaks(rule, r))
		} else {
			out.Rules = append(out.Rules, j.limit(i))
		}
		out.Failed = out.Failed || out.Rules[i].Status == report.RuleFailed
	}
	out.Problems = append(out.Problems, j.problems(r)...)
	undecided := len(out.Problems) > 0
	out.Problems = append(out.Problems, j.unmeasured(r, out.Rules)...)
	if undecided {
		for i := range out.Rules {
			if out.Rules[i].Status == report.RulePassed {
				out.Rules[i].Status = report.RuleUnknown
			}
		}
	}
	if len(out.Problems) > 0 {
		out.Gone = out.Gone[:0] // what was not looked for is not gone
	}
	r.Outcome = out
	return out
}

// leaks decides a rule about leaks.
func (j *Judge) leaks(rule *Rule, r *report.Report) report.RuleDone {
	done := report.RuleDone{Rule: rule.text, Status: report.RulePassed, Leaks: []int{}}
	var sum report.LeakSum
	for i := range r.Leaks {
		l := &r.Leaks[i]
		if l.Known || !slices.Contains(rule.kinds(), l.Kind) {
			continue
		}
		bytes := l.Bytes
		if rule.figure != nil { // limits count only after the warm-up
			bytes -= min(bytes, l.WarmUpBytes)
		}
		if bytes == 0 && l.Bytes != 0 {
			continue
		}
		done.Leaks = append(done.Leaks, i)
		sum.Bytes += bytes
		sum.Count += l.Count
	}
	done.Figure = "none"
	if len(done.Leaks) > 0 {
		done.Figure = fmt.Sprintf("%s in %d blocks of %d leaks", showBytes(float64(sum.Bytes)), sum.Count, len(done.Leaks))
	}
	failed := len(done.Leaks) > 0
	if rule.figure != nil {
		v := float64(sum.Bytes)
		if rule.figure.name == "leak.blocks" {
			v = float64(sum.Count)
		}
		failed = rule.limit.Compare(v, rule.value)
	}
	if failed {
		done.Status = report.RuleFailed
	} else {
		done.Leaks = done.Leaks[:0]
	}
	return done
}

// limit decides a rule about another figure.
func (j *Judge) limit(i int) report.RuleDone {
	rule := &j.opt.Rules[i]
	m := j.measured(i)
	done := report.RuleDone{Rule: rule.text, Status: report.RulePassed, Figure: m.text(rule.figure), Leaks: []int{}}
	switch {
	case !m.known:
		done.Status = report.RuleUnknown
	case rule.limit.Compare(m.value, rule.value):
		done.Status = report.RuleFailed
	}
	return done
}

func (j *Judge) measured(i int) measure {
	m := j.measures[i]
	for _, c := range j.courses {
		j.grown(i, c, &m)
	}
	return m
}
