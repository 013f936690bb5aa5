//go:build linux && !viewer

package main

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/tracer/event"
)

// A tee sees all that the analyzer is told, in its order, and each Report that it makes of that.
type tee interface {
	Take(input.Input)
	Reported(analyzer.ReportOptions, *report.Report)
}

// newTee, if not nil, makes one more tee of a session.
var newTee func(analyzer.Config) tee

// startAnalyzer begins with an analyzer that knows no process.
func (s *session) startAnalyzer() (err error) {
	config := s.tracer.Config()
	siteRoom, blockRoom := memoryShares(s.memory)
	c := analyzer.Config{
		Start: s.started, MinAge: uint64(s.minAge), WarmUp: uint64(s.gate.warmUp), FollowForks: !config.NoFollow,
		SiteRoom: siteRoom, BlockRoom: blockRoom, Seed: [2]uint64{rand.Uint64(), rand.Uint64()},
		Sample: sampleOf(s.tracer), Interval: config.Interval, Counted: !config.Sampling, NamePools: true, Wrappers: s.wrappers, Native: s.native,
		Tracer: report.TracerInfo{Attach: string(config.Mechanism), Faults: string(config.Faults), Unwind: string(config.Unwind)},
	}
	s.analyzer = analyzer.New(c)
	if s.recording != nil {
		s.recorder = newRecorder(s.recording, c, s.wrapperNames)
		if s.recorder.flight, err = newFlight(s.recorder, s.gate.warmUp); err != nil {
			s.recorder = nil
			return err
		}
		s.tees = append(s.tees, s.recorder)
	}
	if newTee != nil {
		s.tees = append(s.tees, newTee(c))
	}
	return nil
}

// take gives the analyzer one thing more. All that it is told passes here, in the goroutine of loop.
func (s *session) take(in input.Input) {
	for _, t := range s.tees {
		t.Take(in)
	}
	s.analyzer.Take(in)
}

// apply gives the analyzer the events of a batch. Before an exec it stops to name the code of the program
// that is replaced: its addresses mean something else from then on.
func (s *session) apply(events []event.Event) {
	from := 0
	for i := range events {
		if e := &events[i]; e.Kind == event.Exec {
			s.give(events[from:i])
			from = i
			if s.analyzer.Follows(e.PID) {
				s.rename(int(e.PID), e.Time)
			}
		}
	}
	s.give(events[from:])
}

func (s *session) give(events []event.Event) {
	if len(events) == 0 {
		return
	}
	s.batch.Events = events
	s.take(&s.batch)
	s.namePools(s.analyzer.UnnamedPools(false))
}

// namePools answers what pools are called.
func (s *session) namePools(pools []analyzer.UnnamedPool) {
	for _, q := range pools {
		name := ""
		if q.Text != 0 {
			name = s.pools.Text(q.PID, q.Text)
		} else {
			name = s.pools.Pool(q.PID, q.Pool)
		}
		s.take(input.PoolName{PID: q.PID, Pool: q.Pool, Text: q.Text, Name: name})
	}
}

// nameStacks answers what the code in stacks is called, where that is known. They are named in the order in which they were
// taken, as neighbours have most of their frames in common.
func (s *session) nameStacks(stacks []analyzer.UnnamedStack) {
	slices.SortFunc(stacks, func(a, b analyzer.UnnamedStack) int { return cmp.Compare(a.Stack, b.Stack) })
	run := s.names.Run()
	for _, q := range stacks {
		if frames := s.names.Frames(run, q.PID, q.Addrs, q.At); len(frames) > 0 {
			s.take(input.Names{Stack: q.Stack, PID: uint32(q.PID), ID: q.ID, Last: q.Last, Frames: frames})
		}
	}
}

// reportOf has the analyzer make a Report of this instant.
func (s *session) reportOf(o analyzer.ReportOptions) *report.Report {
	s.take(input.Instant{Now: now()})
	s.namePools(s.analyzer.UnnamedPools(true))
	s.nameStacks(s.analyzer.Unnamed(o))
	r := s.analyzer.Report(o)
	for _, t := range s.tees {
		t.Reported(o, r)
	}
	return r
}
