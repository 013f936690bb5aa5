package alert

import (
	"errors"
	"slices"
	"time"
)

// course is a figure in time, at most maxPoints of it over a span.
type course struct {
	points []point
	slope  float64 // of the points, a second
}

type point struct {
	at    time.Time
	value float64
}

const (
	maxPoints = 32
	// minPoints of a span: two always fit a line.
	minPoints = 3
)

var errTooShort = errors.New("it is not known for long enough yet")

// add takes a value in, if it is time for another point. What is older than the span goes.
func (c *course) add(at time.Time, value float64, span time.Duration) {
	if n := len(c.points); n > 0 && at.Sub(c.points[n-1].at) < span/maxPoints {
		return
	}
	c.points = append(c.points, point{at, value})
	// One point from before the span stays: the span is whole.
	for len(c.points) > 1 && at.Sub(c.points[1].at) >= span {
		c.points = slices.Delete(c.points, 0, 1)
	}
	c.slope = slopeOf(c.points)
}

// rate is by how much the value grows a second, once the span is whole.
func (c *course) rate(span time.Duration) (float64, error) {
	n := len(c.points)
	if n < minPoints || c.points[n-1].at.Sub(c.points[0].at) < span {
		return 0, errTooShort
	}
	return c.slope, nil
}

// counted is how much came within the span. A count that falls began anew.
func (c *course) counted(now float64) float64 {
	if len(c.points) == 0 {
		return 0
	}
	return max(now-c.points[0].value, 0)
}

// slopeOf is the median of the slopes of all pairs of points (Theil and Sen): single peaks don't move it.
func slopeOf(points []point) float64 {
	slopes := make([]float64, 0, len(points)*len(points)/2)
	for i, p := range points {
		for _, q := range points[:i] {
			if dt := p.at.Sub(q.at).Seconds(); dt > 0 {
				slopes = append(slopes, (p.value-q.value)/dt)
			}
		}
	}
	n := len(slopes)
	if n == 0 {
		return 0
	}
	slices.Sort(slopes)
	return (slopes[(n-1)/2] + slopes[n/2]) / 2
}

// A Growth is by how much a figure grows, over a span that begins with its first value and is whole once it is as long as
// the longest.
type Growth struct {
	course course
	span   time.Duration
}

// firstSpan is how many intervals the span begins with: it is doubled whenever it is full, and every second point goes.
const firstSpan = 16

// Add takes a value in. interval is the time between two of them, longest that of the whole span.
func (g *Growth) Add(at time.Time, value float64, interval, longest time.Duration) {
	g.span = min(max(g.span, firstSpan*interval), longest)
	if p := g.course.points; len(p) > 0 && at.Sub(p[0].at) >= g.span && g.span < longest {
		g.span = min(2*g.span, longest)
		kept := p[:0]
		for i := range p {
			if i%2 == 0 {
				kept = append(kept, p[i])
			}
		}
		g.course.points = kept
	}
	g.course.add(at, value, g.span)
}

// Grown is by how much it has grown over the time that it has been known for, by the median of its slopes. That is 0 as
// long as nothing can be said.
func (g *Growth) Grown() (bytes float64, known time.Duration) {
	p := g.course.points
	if len(p) < minPoints {
		return 0, 0
	}
	known = p[len(p)-1].at.Sub(p[0].at)
	return g.course.slope * known.Seconds(), known
}
