//go:build linux && !viewer

package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/memtrace/memtrace/analyzer/recording"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/cmd/memtrace/agent"
)

// traceForAlert traces the processes that an agent names on stdin, as an alert asks for it: for the time of --duration. It
// tells on stdout whom it could not trace, and what it has found. Where stdin ends or a signal comes, it ends at once, in
// good order: a leak check may take longer than who waits for the end does.
func traceForAlert(ctx context.Context, set settings) error {
	signal.Ignore(syscall.SIGPIPE) // an agent that was killed must not take the end of the recording along
	orders := bufio.NewReader(os.Stdin)
	all, err := readOrders(orders)
	if err != nil {
		return err
	}
	// Before anything is attached: that may take long, and nothing else ends this memtrace where its agent was killed.
	ctx, release := wantedUntilEnd(ctx, orders, func() { os.Exit(agent.LateExit) })
	defer release()
	set.recordOnly, set.quiet, set.top, set.tracer.RingBytes = true, true, 0, alertRing(runtime.NumCPU())
	if err := set.recording.open(); err != nil {
		return err
	}
	defer set.recording.abandon()
	s, err := newSession(set, noOutput{})
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.limiter.begin(false); err != nil {
		return err
	}
	to := json.NewEncoder(os.Stdout)
	if err := s.followAll(ctx, all, to); err != nil {
		return err
	}
	out := &resultOutput{session: s, to: to}
	s.out = out
	s.wanted, s.endEarly = ctx, func() {
		out.early = true
		s.stopUnchecked()
	}
	defer context.AfterFunc(ctx, func() { s.runInSession(s.endEarly) })()
	if err := s.loop(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	return s.withRecord(nil)
}

// wantedUntilEnd is a context that ends with another one, or with what the agent writes. A while later late is called,
// unless it was released.
func wantedUntilEnd(ctx context.Context, orders io.Reader, late func()) (wanted context.Context, release func()) {
	wanted, cancel := context.WithCancel(ctx)
	keep := context.AfterFunc(wanted, func() { time.AfterFunc(endPatience, late) })
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, orders)
	}()
	return wanted, func() {
		keep()
		cancel()
	}
}

const (
	// alertRings are what the rings of all CPUs hold, and maxAlertRing of one: beside an agent there is no room for the
	// rings of a trace that somebody has started, and --max-overhead bounds how fast events come.
	alertRings   = 64 << 20
	maxAlertRing = 4 << 20
	minAlertRing = 64 << 10
)

// alertRing is what the rings of one of so many CPUs hold, bytes.
func alertRing(cpus int) int {
	size := maxAlertRing
	for size > minAlertRing && size*cpus > alertRings {
		size /= 2
	}
	return size
}

var errEndedEarly = errors.New("the trace was ended before its time")

// endedEarly ends the trace if it is to be, and reports whether it has been.
func (s *session) endedEarly() bool {
	if s.wanted == nil || s.wanted.Err() == nil {
		return false
	}
	if !s.stopping {
		s.endEarly()
	}
	return true
}

// stopUnchecked ends the trace without a leak check.
func (s *session) stopUnchecked() {
	s.leaveUnchecked()
	s.stop()
}

func (s *session) leaveUnchecked() {
	for _, t := range s.targets {
		if t.unchecked != nil {
			t.unchecked = errEndedEarly
		}
	}
}

// readOrders reads all that there are, up to an empty line.
func readOrders(from *bufio.Reader) (all []agent.Order, err error) {
	for {
		line, err := from.ReadBytes('\n')
		if err != nil {
			return nil, fmt.Errorf("read the agent's orders: %w", err)
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			return all, nil
		}
		var o agent.Order
		if err := json.Unmarshal(line, &o); err != nil {
			return nil, fmt.Errorf("an order of the agent can't be read: %w", err)
		}
		all = append(all, o)
	}
}

// followAll begins to trace all that were ordered, and tells of those that can't be traced: they may have ended. It fails
// where there is none. Once ctx has ended, it begins with no further ones.
func (s *session) followAll(ctx context.Context, all []agent.Order, to *json.Encoder) error {
	var f agent.TraceFeed
	var wrong error
	for _, o := range all {
		err := errEndedEarly
		if ctx.Err() == nil {
			err = s.follow(o)
		}
		if err != nil {
			wrong = errors.Join(wrong, fmt.Errorf("process %d: %w", o.PID, err))
			f.Refused = append(f.Refused, agent.Refusal{PID: o.PID, Why: err.Error()})
			continue
		}
		s.pids = append(s.pids, o.PID)
	}
	if err := to.Encode(&f); err != nil {
		return fmt.Errorf("tell the agent: %w", err)
	}
	if len(s.pids) == 0 {
		return fmt.Errorf("no process can be traced: %w", wrong)
	}
	return nil
}

// resultOutput tells an agent what the last Report says.
type resultOutput struct {
	noOutput
	session *session
	to      *json.Encoder
	early   bool // it was ended before its time
}

// final fails at nothing: the recording is whole, and who was to be told may be gone.
func (o *resultOutput) final(r *report.Report) error {
	result := agent.TraceResult{TimeOver: o.session.timeOver, Early: o.early, Found: foundBy(r)}
	status := o.session.recorder.status()
	result.Found.Unrecorded = status.LeftOutEvents
	switch err := cmp.Or(status.Err, o.session.recordError); {
	case errors.Is(err, recording.ErrFull):
		result.Found.RecordingFull = true
	case err != nil:
		result.RecordError = err.Error()
	}
	_ = o.to.Encode(&agent.TraceFeed{Ended: &result})
	return nil
}

// foundBy sums a Report up.
func foundBy(r *report.Report) (f agent.Findings) {
	f.Lost, f.Shed, f.Leaks = r.Events.Lost, r.Shed, []agent.LeakFound{}
	for i := range r.Processes {
		if r.Processes[i].LeakCheck != nil {
			f.Checked++
		}
	}
	for _, kind := range report.LeakKinds() {
		var sum report.LeakSum
		for i := range r.Leaks {
			if r.Leaks[i].Kind == kind {
				sum.Add(&r.Leaks[i])
			}
		}
		if sum.Count > 0 {
			f.Leaks = append(f.Leaks, agent.LeakFound{Kind: kind, Bytes: sum.Bytes, Blocks: sum.Count})
		}
	}
	f.Top = topSite(r, f.Leaks)
	f.FullSeconds = time.Duration(r.WindowNS).Seconds()
	if o := r.Overhead; o != nil {
		f.FullSeconds = time.Duration(o.FullNS).Seconds()
		f.SampledSeconds = time.Duration(o.SampledNS - min(o.SampledNS, firstLook(o))).Seconds()
		f.NoneSeconds, f.PausedSeconds = time.Duration(o.NoneNS).Seconds(), time.Duration(o.PausedNS).Seconds()
	}
	if p := r.Pressure; p != nil {
		f.PressedSeconds = time.Duration(p.SampledNS).Seconds()
	}
	return f
}

// firstLook is how many ns the sparse samples took that a trace begins with, until it is known how much its processes
// allocate: it is as if it began after them. 0: it went on by samples.
func firstLook(o *report.Overhead) uint64 {
	if len(o.Spans) < 2 || len(o.Spans) == maxSpans { // else the first one may be gone
		return 0
	}
	first, next := o.Spans[0], o.Spans[1]
	took := first.ToNS - first.FromNS
	if first.Interval != limiterInterval*sparser || next.Mode != "full" || took > uint64(time.Second) {
		return 0
	}
	return took
}

// topSite is where most of the worst kind of leaks was allocated, over all processes; without leaks, most of what lives.
func topSite(r *report.Report, leaks []agent.LeakFound) *agent.SiteFound {
	var all []*agent.SiteFound
	byPlace := make(map[agent.SiteFound]*agent.SiteFound)
	add := func(s *report.Site, kind string, bytes, blocks uint64) {
		is := agent.SiteFound{Function: s.Function, Kind: kind}
		if s.FunctionFrame < len(s.Stack) {
			is.File, is.Line = s.Stack[s.FunctionFrame].File, s.Stack[s.FunctionFrame].Line
		}
		sum := byPlace[is]
		if sum == nil {
			copied := is
			sum = &copied
			byPlace[is], all = sum, append(all, sum)
		}
		sum.Bytes += bytes
		sum.Blocks += blocks
	}
	if len(leaks) > 0 {
		sites := make(map[int]*report.Site, len(r.Sites))
		for i := range r.Sites {
			sites[r.Sites[i].ID] = &r.Sites[i]
		}
		for i := range r.Leaks {
			if l := &r.Leaks[i]; l.Kind == leaks[0].Kind && sites[l.Site] != nil {
				add(sites[l.Site], l.Kind, l.Bytes, l.Count)
			}
		}
	} else {
		for i := range r.Sites {
			add(&r.Sites[i], "", r.Sites[i].LiveBytes, r.Sites[i].LiveCount)
		}
	}
	if len(all) == 0 {
		return nil
	}
	top := slices.MaxFunc(all, func(x, y *agent.SiteFound) int { return cmp.Compare(x.Bytes, y.Bytes) })
	if top.Bytes == 0 {
		return nil // nothing lives
	}
	return top
}

// lackedRights says what keeps a service of another user from being traced in full, "" where nothing does.
func lackedRights() string {
	s, err := ownSurroundings()
	switch {
	case err != nil:
		return err.Error()
	case s.inUserSpace:
		return "in a user namespace no capability counts for BPF"
	case len(s.filtered) > 0:
		return "a seccomp filter refuses " + strings.Join(s.filtered, " and ")
	}
	if missing := missingFrom(s.sets.effective); len(missing) > 0 {
		return "missing: " + capabilityNames(missing)
	}
	return ""
}
