package query

import (
	"fmt"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/report"
)

// timeline collects what is born and ends in each step of a span.
type timeline struct {
	from, step uint64
	before     moves // born before the span
	steps      []struct{ born, ended moves }
	total      sums
	coarser    bool // the step is longer than was asked for
}

// moves are blocks that came or went.
type moves struct {
	count, bytes uint64
	others       analyzer.Others
}

func (m *moves) add(l *analyzer.Life) {
	m.count++
	m.bytes += l.Size
	if l.Interval != 0 {
		add(&m.others, l.Others())
	}
}

func (m *moves) merge(o *moves) {
	m.count += o.count
	m.bytes += o.bytes
	add(&m.others, o.others)
}

func (m *moves) sub(o *moves) {
	m.count -= o.count
	m.bytes -= o.bytes
	m.others.Count -= o.others.Count
	m.others.Bytes -= o.others.Bytes
}

func (m *moves) figures() (count, bytes uint64) {
	return m.count + whole(m.others), m.bytes + m.others.Bytes
}

func newTimeline(o *Options) *timeline {
	return &timeline{from: o.From, step: uint64(o.Timeline)}
}

func (c *timeline) add(s *subject) error {
	c.total.add(s)
	if l := s.life; l.Since < c.from {
		c.before.add(l)
	} else {
		i := c.stepOf(l.Since)
		c.steps[i].born.add(l)
	}
	if !s.live {
		i := c.stepOf(s.life.Ended)
		c.steps[i].ended.add(s.life)
	}
	return nil
}

// stepOf returns the step of a time. Where there are too many, two and two become one.
func (c *timeline) stepOf(t uint64) int {
	t -= min(t, c.from)
	for t/c.step >= maxSteps {
		for i := 0; 2*i < len(c.steps); i++ {
			joined := c.steps[2*i]
			if 2*i+1 < len(c.steps) {
				joined.born.merge(&c.steps[2*i+1].born)
				joined.ended.merge(&c.steps[2*i+1].ended)
			}
			c.steps[i] = joined
		}
		c.steps = c.steps[:(len(c.steps)+1)/2]
		c.step *= 2
		c.coarser = true
	}
	i := int(t / c.step)
	for i >= len(c.steps) {
		c.steps = append(c.steps, struct{ born, ended moves }{})
	}
	return i
}

func (c *timeline) fill(r *runner) {
	res := r.result
	if res.ToNS >= c.from {
		c.stepOf(res.ToNS)
	}
	res.Total, res.StepNS = c.total.figures(), c.step
	live := c.before
	for i := range c.steps {
		s := &c.steps[i]
		live.merge(&s.born)
		live.sub(&s.ended)
		out := Step{FromNS: c.from + uint64(i)*c.step}
		out.LiveCount, out.LiveBytes = live.figures()
		out.BornCount, out.BornBytes = s.born.figures()
		out.EndedCount, out.EndedBytes = s.ended.figures()
		res.Steps = append(res.Steps, out)
	}
	if c.coarser {
		res.Notes = append(res.Notes, fmt.Sprintf("The steps are %s long: of those asked for there would be more than %d.", report.HumanTime(c.step), maxSteps))
	}
}
