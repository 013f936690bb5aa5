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
