//go:build linux && !viewer

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memtrace/memtrace/analyzer/recording"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/cmd/memtrace/agent"
)

// A trace for an alert is wanted until its agent ends, also while it isn't attached to all yet, and has a while to end
// then.
func TestWantedUntilTheAgentEnds(t *testing.T) {
	for what, end := range map[string]func(orders io.Closer, cancel func()){
		"its orders end": func(orders io.Closer, _ func()) { _ = orders.Close() },
		"a signal":       func(_ io.Closer, cancel func()) { cancel() },
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			from, orders := io.Pipe()
			late := false
			wanted, release := wantedUntilEnd(ctx, from, func() { late = true })
			time.Sleep(time.Hour)
			if synctest.Wait(); wanted.Err() != nil || late {
				t.Errorf("%s: it has ended before: %v, %v", what, wanted.Err(), late)
			}
			end(orders, cancel)
			if synctest.Wait(); wanted.Err() == nil {
				t.Errorf("%s: it is still wanted", what)
			}
			time.Sleep(endPatience - 1)
			if synctest.Wait(); late {
				t.Errorf("%s: it has no time to end", what)
			}
			time.Sleep(time.Nanosecond)
			if synctest.Wait(); !late {
				t.Errorf("%s: it may go on for ever", what)
			}
			_ = orders.Close()
			release()
		})
	}
	synctest.Test(t, func(t *testing.T) {
		from, orders := io.Pipe()
		_, release := wantedUntilEnd(t.Context(), from, func() { t.Error("one that has ended is late") })
		release()
		_ = orders.Close()
		time.Sleep(time.Hour)
	})
}

// Once its agent has ended, a trace attaches to nothing further.
func TestNothingIsAttachedForAnEndedAgent(t *testing.T) {
	s, _ := jobOf(t, "definite", true)
	clear(s.targets)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var told bytes.Buffer
	err := s.followAll(ctx, []agent.Order{{PID: os.Getppid()}}, json.NewEncoder(&told))
	var f agent.TraceFeed
	if !errors.Is(err, errEndedEarly) || json.Unmarshal(told.Bytes(), &f) != nil || len(f.Refused) != 1 ||
		f.Refused[0].Why != errEndedEarly.Error() || len(s.targets) > 0 {
		t.Errorf("%v: %+v", err, f)
	}
}

// What ends a trace while its processes are checked for leaks ends the check: without probes, frees are not seen.
func TestStoppedTraceChecksNoMore(t *testing.T) {
	s, one := jobOf(t, "definite", true)
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	other, err := holdTarget(s.fs, cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.close)
	s.targets[other.pid] = other
	one.untraced, other.untraced = errNotTraced, errNotTraced // so that there is nothing to scan
	ctx, cancel := context.WithCancel(t.Context())
	s.wanted, s.endEarly = ctx, func() {
		s.leaveUnchecked()
		s.stopping = true
	}
	if s.endedEarly() {
		t.Error("it has ended early")
	}
	cancel()
	s.checkLeaks()
	if !s.stopping || one.unchecked != errEndedEarly || other.unchecked != errEndedEarly {
		t.Errorf("stopping %v: %v, %v", s.stopping, one.unchecked, other.unchecked)
	}
}

// A recording that has come to its largest size is a loss, and no failure of the trace; one that can't be written is
// one.
func TestResultOfAFullRecording(t *testing.T) {
	shed := &report.Shed{Stacks: 1, Allocations: 2, Blocks: 3}
	for why, wrong := range map[error]string{
		fmt.Errorf("write: %w", recording.ErrFull): "", syscall.ENOSPC: syscall.ENOSPC.Error(),
	} {
		var told bytes.Buffer
		o := resultOutput{session: &session{recorder: &recorder{err: why}, timeOver: true}, to: json.NewEncoder(&told)}
		if err := o.final(&report.Report{Shed: shed, Events: report.Events{Lost: 4}}); err != nil {
			t.Fatal(err)
		}
		var f agent.TraceFeed
		if err := json.Unmarshal(told.Bytes(), &f); err != nil || f.Ended == nil {
			t.Fatalf("%q: %v", told.String(), err)
		}
		e := f.Ended
		if !e.TimeOver || e.Early || e.RecordError != wrong || e.Found.RecordingFull != (wrong == "") ||
			e.Found.Lost != 4 || e.Found.Shed == nil || *e.Found.Shed != *shed {
			t.Errorf("%v: %s", why, told.String())
		}
	}
}

// The sparse samples that a trace begins with are no loss, unless it goes on by samples. What was sampled as events
// came too fast is one.
func TestFindingsOfSamples(t *testing.T) {
	sparse := report.Span{FromNS: 3e9, ToNS: 3.05e9, Mode: "sampled", Interval: limiterInterval * sparser}
	full, sampled := report.Span{FromNS: 3.05e9, ToNS: 9e9, Mode: "full"}, report.Span{FromNS: 9e9, ToNS: 10e9, Mode: "sampled", Interval: limiterInterval}
	long := sparse
	long.ToNS += 2e9
	for _, x := range []struct {
		spans   []report.Span
		sampled float64
	}{
		{[]report.Span{sparse, full}, 0},
		{[]report.Span{sparse, full, sampled}, 1},
		{[]report.Span{sparse, sampled}, 1.05},
		{[]report.Span{sparse}, 0.05},
		{[]report.Span{long, full}, 2.05},
		{append([]report.Span{sparse}, slices.Repeat([]report.Span{full}, maxSpans-1)...), 0.05},
	} {
		r := report.Report{Overhead: &report.Overhead{Spans: x.spans}, Pressure: &report.Pressure{SampledNS: 5e8}}
		for _, s := range x.spans {
			if s.Mode == "sampled" {
				r.Overhead.SampledNS += s.ToNS - s.FromNS
			}
		}
		if f := foundBy(&r); f.SampledSeconds != x.sampled || f.PressedSeconds != 0.5 {
			t.Errorf("%+v: %v s, %v s", x.spans[0], f.SampledSeconds, f.PressedSeconds)
		}
	}
}
