package blocks

// courseSteps is how many steps of live bytes come between two heap profiles.
const courseSteps = 10

// A course is the live bytes of each process over time. Of each step it tells the most that there was, when it was,
// and what there is at its end: so a picture has the true peaks.
type course struct {
	tell       func(p *process, at, bytes uint64)
	step, next uint64
	survey     *survey
	processes  []liveBytes // by process.number
	touched    []int       // likewise: those of this step
}

type liveBytes struct {
	bytes, most, mostAt uint64
	touched, rose       bool // in this step
}

func newCourse(s *survey, steps uint64, tell func(p *process, at, bytes uint64)) *course {
	step := max(s.last/steps, 1)
	return &course{tell: tell, step: step, next: step, survey: s, processes: make([]liveBytes, len(s.list))}
}

func (c *course) happened(b *happening) {
	if b.at >= c.next {
		c.end(c.next)
		c.next += (b.at - c.next + c.step) / c.step * c.step
	}
	number := c.survey.processOf(b).number
	p := &c.processes[number]
	if !p.touched {
		p.touched, p.rose, p.most = true, false, p.bytes
		c.touched = append(c.touched, number)
	}
	w := b.weight()
	if b.end {
		p.bytes -= w.bytes
		return
	}
	p.bytes += w.bytes
	if p.bytes > p.most {
		p.rose, p.most, p.mostAt = true, p.bytes, b.at
	}
}

// end ends a step: it tells of the processes that something has happened in.
func (c *course) end(at uint64) {
	for _, number := range c.touched {
		p := &c.processes[number]
		p.touched = false
		if p.rose && p.most != p.bytes {
			c.tell(c.survey.list[number], p.mostAt, p.most)
		}
		c.tell(c.survey.list[number], at, p.bytes)
	}
	c.touched = c.touched[:0]
}
