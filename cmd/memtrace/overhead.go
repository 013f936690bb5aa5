//go:build linux && !viewer

package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/tracer"
)

func overheadFlag() cli.Flag {
	return &cli.StringFlag{Name: "max-overhead", Usage: "" +
		"keep the probes below this share of the processes' CPU time, such as 5%, by recording less or pausing; " +
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

// A limiter keeps what the probes cost within a limit: it counts hits, asks a
// budget for the level to trace at, and remembers when each was in force.
type limiter struct {
	budget   tracer.Budget
	interval uint32 // of Sampled; Sparse has 16 times that
	hits     tracer.Hits
	cpu      map[int]uint64 // by process, at the last step
	ends     endedTimes
	at       uint64 // ns, CLOCK_MONOTONIC: of the last step
	spans    []report.Span
	total    map[string]uint64 // ns by mode
	broken   bool
}

const (
	limiterInterval = 64 << 10
	sparser         = 16
	maxSpans        = 256
)

// newLimiter calibrates; nil where no limit was set.
func newLimiter(limit float64, t *tracer.Tracer, interval uint32) (*limiter, error) {
	if limit == 0 {
		return nil, nil
	}
	costs, err := t.Calibrate()
	if err != nil {
		return nil, err
	}
	l := &limiter{budget: tracer.Budget{Limit: limit, Costs: costs}, interval: limiterInterval, cpu: make(map[int]uint64), total: make(map[string]uint64)}
	if interval != 0 {
		l.budget.Floor, l.interval = tracer.Sampled, interval
	}
	return l, nil
}

func (l *limiter) intervalOf(level tracer.Level) uint32 {
	switch level {
	case tracer.Sampled:
		return l.interval
	case tracer.Sparse:
		return uint32(min(uint64(l.interval)*sparser, math.MaxUint32))
	}
	return 0
}

// keepWithin looks at what the probes took since the last time, and traces
// less or more for it.
func (s *session) keepWithin() {
	l := s.limiter
	if l == nil || s.stopping || l.broken {
		return
	}
	at := now()
	if l.at == 0 {
		l.at, l.hits = at, s.tracer.Hits()
		l.spent(s.targets)
		return
	}
	hits, cpu, was := s.tracer.Hits(), l.spent(s.targets), l.budget.Level()
	l.note(was, at-s.started, at-l.at)
	level := l.budget.Observe(time.Duration(at-s.started), time.Duration(at-l.at), hits.Sub(l.hits), cpu)
	l.at, l.hits = at, hits
	if level == was {
		return
	}
	if err := s.enter(was, level); err != nil {
		l.broken = true
		s.warn("the overhead is not limited any more: %v", err)
	}
}

// enter changes to another level.
func (s *session) enter(was, level tracer.Level) error {
	if level == tracer.Paused {
		err := s.tracer.Pause()
		s.dropLiveBlocks()
		return err
	}
	if err := s.tracer.SetInterval(s.limiter.intervalOf(level)); err != nil {
		return err
	}
	if was != tracer.Paused {
		return nil
	}
	s.dropLiveBlocks() // what was still in the rings
	return s.tracer.Resume()
}

// dropLiveBlocks drops what is known of live blocks.
func (s *session) dropLiveBlocks() {
	s.take(input.Pause{})
	for _, t := range s.targets {
		if t.exited {
			continue
		}
		if base, err := analyzer.ReadBaseline(t.held.Process); err == nil {
			t.base = base
		}
	}
}

// endedTimes are the processor times, in ns, of children that ended since the last step.
type endedTimes struct {
	mu  sync.Mutex
	cpu map[int]uint64
}

// ending notes the processor time of a process that stands still at its end. Many children
// live shorter than a step. It is called from other goroutines than the session's.
func (l *limiter) ending(pid int) {
	if l == nil {
		return
	}
	if ns, ok := processorTime(pid); ok {
		l.ends.mu.Lock()
		defer l.ends.mu.Unlock()
		if l.ends.cpu == nil {
			l.ends.cpu = make(map[int]uint64)
		}
		l.ends.cpu[pid] = ns
	}
}

// processorTime is what a process has taken, in ns; ok is false where it is no more.
func processorTime(pid int) (ns uint64, ok bool) {
	var ts unix.Timespec
	clock := int32(^pid)<<3 | 2 // clock_getcpuclockid(3)
	if unix.ClockGettime(clock, &ts) != nil {
		return 0, false
	}
	return uint64(ts.Nano()), true
}

// spent is the processor time of the targets since the last call, in ns. That of a child,
// which began under trace, counts from its start, that of others from the first call.
func (l *limiter) spent(targets map[int]*target) (ns uint64) {
	ns = l.spentEnded(targets)
	for pid, t := range targets {
		if t.exited {
			delete(l.cpu, pid) // the next one of this PID begins from nothing
		}
		if t.exited || t.shared {
			continue
		}
		is, ok := processorTime(pid)
		if !ok {
			continue // it has ended
		}
		if was, known := l.cpu[pid]; (known || t.child) && is > was {
			ns += is - was
		}
		l.cpu[pid] = is
	}
	for pid := range l.cpu {
		if targets[pid] == nil {
			delete(l.cpu, pid)
		}
	}
	return ns
}

// spentEnded is the part of those that have ended.
func (l *limiter) spentEnded(targets map[int]*target) (ns uint64) {
	l.ends.mu.Lock()
	defer l.ends.mu.Unlock()
	for pid, is := range l.ends.cpu {
		t := targets[pid]
		was, known := l.cpu[pid]
		if (known || t == nil || t.child) && is > was {
			ns += is - was
		}
		l.cpu[pid] = max(is, was) // it may be there for a moment yet
	}
	clear(l.ends.cpu)
	return ns
}

// note adds a step that ended at a time, since the attach, to the spans.
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
	round := func(ns float64) float64 { return math.Round(ns*10) / 10 }
	return &report.Overhead{
		Limit: l.budget.Limit, Share: math.Round(l.budget.Overhead()*1e5) / 1e5, Mode: l.budget.Level().String(),
		EntryNS: round(l.budget.Costs.Entry), ReturnNS: round(l.budget.Costs.Return),
		FullNS: l.total["full"], SampledNS: l.total["sampled"], PausedNS: l.total["paused"],
		Spans: append([]report.Span{}, l.spans...),
	}
}

// warnings says what pauses do to the figures.
func (l *limiter) warnings() []string {
	if l == nil || l.total["paused"] == 0 {
		return nil
	}
	return []string{fmt.Sprintf("nothing was seen for %v, to keep within the overhead: no block from before the last pause is known, and frees of such match nothing",
		time.Duration(l.total["paused"]).Round(time.Millisecond))}
}
