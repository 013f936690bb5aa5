//go:build linux && !viewer

package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/tracer"
)

func overheadFlag() cli.Flag {
	return &cli.StringFlag{Name: "max-overhead", Usage: "" +
		"keep the probes below this share of the processes' CPU time, such as 5%, by recording less or only faults; " +
		"0: no limit"}
}

// maxOverhead reads --max-overhead, 0 where there is no limit.
func maxOverhead(c *cli.Context) (float64, error) { return parseOverhead(c.String("max-overhead")) }

func parseOverhead(text string) (float64, error) {
	if text == "" || text == "0" {
		return 0, nil
	}
	number, percent := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(number, 64)
	if percent {
		v /= 100
	}
	if err != nil || math.IsNaN(v) || v < 0.001 || v > 10 {
		const wanted = "--max-overhead %q is no share from 0.1%% to 1000%%, such as 5%%, nor 0 for no limit"
		return 0, usageError(wanted, text)
	}
	return v, nil
}

// note adds a step that ended at a time, since the attach, to the spans. The lock is held.
func (l *limiter) note(level tracer.Level, at, step uint64) {
	mode, interval := level.String(), uint64(l.intervalOf(level))
	l.total[mode] += step
	if n := len(l.spans); n > 0 && l.spans[n-1].Mode == mode && l.spans[n-1].Interval == interval {
		l.spans[n-1].ToNS = at
		return
	}
	if len(l.spans) == maxSpans {
		l.spans = slices.Delete(l.spans, 0, 1)
	}
	l.spans = append(l.spans, report.Span{FromNS: at - min(at, step), ToNS: at, Mode: mode, Interval: interval})
}

// report is what a Report says of it; nil without a limit.
func (l *limiter) report() *report.Overhead {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	round := func(ns float64) float64 { return math.Round(ns*10) / 10 }
	share := func(of float64) float64 { return math.Round(of*1e5) / 1e5 }
	return &report.Overhead{
		Limit: l.budget.Limit, Share: share(l.budget.Overhead()), LimitedShare: share(l.budget.LimitedShare()),
		Mode:    l.budget.Level().String(),
		EntryNS: round(l.budget.Costs.Entry), ReturnNS: round(l.budget.Costs.Return),
		FullNS: l.total["full"], SampledNS: l.total["sampled"], NoneNS: l.total["none"], PausedNS: l.total["paused"],
		NoneGrowthBytes: l.grown + l.growth(),
		Spans:           append([]report.Span{}, l.spans...),
	}
}

// warnings says what times without probes do to the figures.
func (l *limiter) warnings() []string {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for _, mode := range []struct{ name, text string }{
		{"none", "the allocator had no probes for %v, to keep within the overhead, and page faults told who touched memory first: " +
			"no block from before the last such time is known, and frees of such match nothing"},
		{"paused", "nothing was seen for %v, to keep within the overhead: no block from before the last pause is known, " +
			"and frees of such match nothing"},
	} {
		if ns := l.total[mode.name]; ns != 0 {
			out = append(out, fmt.Sprintf(mode.text, time.Duration(ns).Round(time.Millisecond)))
		}
	}
	if l.total["paused"] != 0 && !l.budget.CanTouch {
		out = append(out, "who touches memory first cannot be told in a pause here: "+
			"that needs Linux 5.15, page faults and their call stacks")
	}
	return out
}
