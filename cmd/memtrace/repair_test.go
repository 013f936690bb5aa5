//go:build linux && !viewer

package main

import (
	"reflect"
	"testing"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/tracer"
	"github.com/memtrace/memtrace/tracer/event"
)

// A child loses events before its fork is read. Whoever looks then must not take
// the loss for reported: all of it is the child's once that is known.
func TestLossOfAChildWaitsForItsBirth(t *testing.T) {
	const parent, child = 1, 2
	a := analyzer.New(analyzer.Config{FollowForks: true})
	defer a.Close()
	s := &session{analyzer: a, losses: make(losses)}
	s.take(input.Started{ProcessInfo: analyzer.ProcessInfo{PID: parent}})
	s.noteLoss(tracer.ProcessLoss{PID: child, Count: 5, First: 40, Last: 50}, 60)
	s.noteLoss(tracer.ProcessLoss{PID: child, Count: 7, First: 40, Last: 70}, 80)
	if len(s.losses) != 0 || a.HasLost(child) {
		t.Fatalf("told of a child that is not known: %v", s.losses)
	}
	s.take(&input.Events{Events: []event.Event{
		{Kind: event.Fork, PID: parent, Child: child, Time: 10},
		{Kind: event.Alloc, PID: child, TID: child, Time: 20, Addr: 0x1000, Size: 8},
	}})
	s.noteLoss(tracer.ProcessLoss{PID: child, Count: 7, First: 40, Last: 70}, 90)
	if a.NewRepair(child, 95) == nil {
		t.Error("a block is not in doubt, though its free may be among what was lost")
	}
	s.noteLoss(tracer.ProcessLoss{PID: child, Count: 7, First: 40, Last: 70}, 2e9) // nothing more
	s.noteLoss(tracer.ProcessLoss{PID: child, Count: 8, First: 40, Last: 4e9}, 5e9)
	want := []report.LossSpan{{FromNS: 40, ToNS: 70, Events: 7}, {FromNS: 2e9, ToNS: 4e9, Events: 1}}
	s.take(input.Instant{Now: 6e9})
	for _, p := range a.Report(analyzer.ReportOptions{}).Processes {
		if p.PID == child && (p.Loss == nil || !reflect.DeepEqual(p.Loss.Spans, want)) {
			t.Errorf("the child lost %+v, want %+v", p.Loss, want)
		}
	}
}
