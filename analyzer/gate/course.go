package gate

import (
	"slices"
	"time"

	"github.com/memtrace/memtrace/analyzer/report"
)

// A program is what the figures of a Report's entry are of, from one Report to the
// next: PIDs are given out again, and with an exec all counts start afresh.
type program struct{ process, execs int }

func programOf(p *report.Process) program { return program{p.ID, p.Execs} }

// A course is the live heap of a program in time, at most maxPoints of it.
type course struct {
	pid    int
	comm   string
	points []point
	every  int    // of so many Reports one is kept
	walked uint64 // FreeWalk.WalkedNS of the last one
	seen   int
}

type point struct{ seconds, bytes float64 }

const (
	maxPoints = 64
	// minPoints is how many a slope takes: two always fit a line.
	minPoints = 3
)

func (c *course) add(ns uint64, p *report.Process) {
	c.pid, c.comm = p.PID, p.Comm                        // which is the program's own only shortly after its exec
	if f := p.FreeWalk; f != nil && f.SeenSinceNS == 0 { // in between, what is gone still counts as live
		if f.WalkedNS == c.walked {
			return
		}
		c.walked = f.WalkedNS
	}
	c.every = max(c.every, 1)
	if c.seen++; (c.seen-1)%c.every != 0 {
		return
	}
	if len(c.points) == maxPoints {
		for i := range maxPoints / 2 {
			c.points[i] = c.points[2*i]
		}
		c.points = c.points[:maxPoints/2]
		c.every *= 2
	}
	c.points = append(c.points, point{time.Duration(ns).Seconds(), float64(p.HeapBytes())})
}

// slope is the median of the slopes of all pairs of points (Theil and Sen), in
// bytes a second: single peaks don't move it.
func (c *course) slope() (float64, bool) {
	if len(c.points) < minPoints {
		return 0, false
	}
	var slopes []float64
	for i, p := range c.points {
		for _, q := range c.points[:i] {
			if dt := p.seconds - q.seconds; dt > 0 {
				slopes = append(slopes, (p.bytes-q.bytes)/dt)
			}
		}
	}
	if len(slopes) == 0 {
		return 0, false
	}
	slices.Sort(slopes)
	n := len(slopes)
	return (slopes[(n-1)/2] + slopes[n/2]) / 2, true
}

// follow takes the live heaps of a Report into the programs' courses. Those that have
// ended count by how they grew; their courses are kept no longer, as there may be any number.
func (j *Judge) follow(r *report.Report) {
	runs := make(map[program]bool, len(r.Processes))
	for i := range r.Processes {
		p := &r.Processes[i]
		if p.Exited || p.Children != 0 {
			continue // no more to be seen of it
		}
		key := programOf(p)
		if runs[key] = true; j.courses[key] == nil {
			j.courses[key] = &course{}
		}
		j.courses[key].add(r.WindowNS, p)
	}
	for key, c := range j.courses {
		if runs[key] {
			continue
		}
		for i := range j.measures {
			j.grown(i, c, &j.measures[i])
		}
		delete(j.courses, key)
	}
}

// grown raises a measure by a course, where its rule is about that.
func (j *Judge) grown(i int, c *course, m *measure) {
	rule := &j.opt.Rules[i]
	if rule.figure == nil || rule.figure.name != growthFigure {
		return
	}
	p := report.Process{PID: c.pid, Comm: c.comm}
	if slope, ok := c.slope(); ok && named(&p, rule.limit.Subject) {
		m.raise(slope, &p)
	}
}
