//go:build linux && !viewer

package main

import (
	"fmt"
	"math"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/analyzer/threshold"
)

func backPressureFlag() cli.Flag {
	return &cli.StringFlag{Name: "back-pressure", Value: "64KiB", Usage: "sample like that while events come too fast to process; 0: lose and count them"}
}

// backPressure reads --back-pressure.
func backPressure(c *cli.Context) (uint32, error) {
	text := c.String("back-pressure")
	if text == "" {
		return 0, nil // not a flag of this command
	}
	bytes, err := threshold.ParseSize(text)
	if err != nil {
		return 0, usageError("--back-pressure: %v", err)
	}
	if bytes > math.MaxUint32 {
		return 0, usageError("--back-pressure %s is more than 4 GiB", text)
	}
	return uint32(bytes), nil
}

// pressure is what a Report says of events that came too fast; nil where none did.
func (s *session) pressure() *report.Pressure {
	p, err := s.tracer.Pressure()
	if err != nil {
		s.warn("%v", err)
	}
	if p.Count == 0 {
		return nil
	}
	if s.events { // no Report will say so
		s.warn("events come faster than they can be written: only a sample of allocations is shown now and then (--back-pressure 0 loses some instead)")
	}
	out := &report.Pressure{Phases: p.Count, LeftOut: report.LeftOut(p.LeftOut), Spans: []report.Span{}}
	for _, phase := range p.Phases {
		to := phase.To
		if to == 0 {
			to, out.Now = now(), true
		}
		span := report.Span{FromNS: phase.From - min(phase.From, s.started), ToNS: to - min(to, s.started), Mode: "sampled", Interval: uint64(phase.Interval)}
		out.SampledNS += span.ToNS - span.FromNS
		out.Spans = append(out.Spans, span)
	}
	s.take(input.LeftOut(out.LeftOut))
	return out
}

// pressedLeaks says what the leak check of a trace that was sampled now and then may have missed.
func pressedLeaks(p *report.Pressure) string {
	interval := float64(p.Spans[len(p.Spans)-1].Interval)
	return fmt.Sprintf("for %v, one allocation every %s was recorded, as events came too fast: of what leaked then, %s in all go unseen in 37%% of checks, %s in 0.7%%",
		time.Duration(p.SampledNS).Round(time.Millisecond), report.HumanBytes(interval), report.HumanBytes(interval), report.HumanBytes(5*interval))
}
