package agent

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"time"

	"github.com/memtrace/memtrace/procfs/collect"
)

// segment is the life of one tracer, which is one recording.
type segment struct {
	tracer  *tracerProcess
	began   time.Time
	lasts   time.Duration
	path    string // of the recording; "": there is none
	most    int64  // bytes of it
	problem string
	why     string // it ended

	ordered map[collect.Identity]traced
	cpu     time.Duration // that was counted of the tracer
	faults  uint64
	lost    uint64
	window  uint64    // of the last Feed, ns
	unwell  time.Time // since when nothing is recorded
	begun   bool      // the tracer can trace
	orders  int
	dear    int // Feeds in a row that cost too much
	pause   time.Duration
}

const endedItself = "the tracer ended by itself"

// traced is a process that the tracer was told to trace.
type traced struct {
	program string
	since   time.Time
}

func (s *segment) options(w *watch) tracerOptions {
	return tracerOptions{interval: min(w.config().Interval, maxTracerInterval), recording: s.path, most: 2 * s.most, cache: w.history.cacheOf(), log: w.log, service: w.service}
}

// file is the name of the recording, "" where there is none.
func (s *segment) file() string {
	if s.path == "" {
		return ""
	}
	return filepath.Base(s.path)
}

// follow gives the tracer the service's processes and takes what it tells, until it is to end. pause is for how long
// there is to be no other.
func (s *segment) follow(ctx context.Context, w *watch) (pause time.Duration) {
	settle := time.NewTicker(settleTime)
	defer settle.Stop()
	for s.why == "" {
		select {
		case <-ctx.Done():
			s.why = "the agent ended, or its rule"
		case f, ok := <-s.tracer.feeds:
			if !ok {
				s.why = endedItself
				break
			}
			s.take(w, f)
		case <-w.news:
			s.order(w)
		case <-settle.C:
			s.order(w)
		}
	}
	return s.pause
}

// order has those processes traced that are new and have settled, and notes those that have ended. A tracer that has told
// nothing yet may fail to begin.
func (s *segment) order(w *watch) {
	if !s.begun {
		return
	}
	members := w.members()
	there := make(map[collect.Identity]bool, len(members))
	for _, m := range members {
		there[m.Identity] = true
	}
	for id, m := range s.ordered {
		if !there[id] {
			w.left(s, id, m)
		}
	}
	for _, m := range members {
		if _, known := s.ordered[m.Identity]; known || time.Since(m.seen) < settleTime {
			continue
		}
		if len(s.ordered) >= maxTraced {
			return // they count as unwatched
		}
		if s.orders++; s.orders > maxOrders {
			s.why = "it has traced enough processes"
			return
		}
		if s.tracer.order(Order{m.PID, m.StartTime}) != nil {
			return // it has ended, which is noticed
		}
		s.ordered[m.Identity] = traced{m.program, time.Now()}
		w.audit.write(auditEntry{What: auditTrace, Service: w.service, Why: "rule " + w.service + ": growth", PID: m.PID, Program: m.program})
	}
}

// take takes what the tracer tells, and decides whether it is to end.
func (s *segment) take(w *watch, f *Feed) {
	if err := w.ledger.take(f); err != nil {
		s.why = err.Error()
		return
	}
	s.begun = true
	cpu, faults := time.Duration(f.CPUNS)-s.cpu, f.Faults-min(s.faults, f.Faults)
	span := time.Duration(f.WindowNS - min(s.window, f.WindowNS))
	w.change(func(st *WatchState) {
		if !st.Up { // only now is it known that it may trace
			st.Up, st.Since, st.Recording, st.Problem = true, s.began, s.path, s.problem
		}
		st.Grown, st.Before, st.Unexplained, st.Processes, st.Resident = f.Grown, f.Before, f.Unexplained, f.Processes, f.Resident
		st.CPU += cpu
		st.Faults += faults
		st.Lost += f.Lost - min(s.lost, f.Lost)
		if f.RecordError != "" && s.unwell.IsZero() {
			st.HistoryFails++
			st.Recording, st.Problem = "", "nothing is recorded: "+f.RecordError
		}
	})
	s.cpu, s.faults, s.lost, s.window = time.Duration(f.CPUNS), f.Faults, f.Lost, f.WindowNS
	for _, pid := range f.Refused {
		w.audit.write(auditEntry{What: auditRefused, Service: w.service, PID: pid})
	}
	if (f.RecordError != "" || s.path == "") && s.unwell.IsZero() {
		s.unwell = time.Now()
	}
	w.prune(s)
	s.judge(f, cpu, faults, span)
}

// judge ends a tracer that is old enough, or costs too much.
func (s *segment) judge(f *Feed, cpu time.Duration, faults uint64, span time.Duration) {
	age := time.Since(s.began)
	if age > startUpTime && float64(cpu) > maxTracerCPU*float64(span) || float64(faults) > maxFaultRate*span.Seconds() {
		s.dear++
	} else {
		s.dear = 0
	}
	switch {
	case s.why != "":
	case age >= s.lasts:
		s.why = "the recording is long enough"
	case f.Recorded >= s.most:
		s.why = "the recording is large enough"
	case !s.unwell.IsZero() && time.Since(s.unwell) >= retryHistory:
		s.why = "it is tried again to record"
	case s.dear >= 2:
		s.why, s.pause = "it cost too much", pauseTime
	}
}

// byMemory orders a service's processes, the largest first.
func byMemory(all []*collect.Process, now time.Time) []member {
	slices.SortFunc(all, func(x, y *collect.Process) int {
		return cmp.Or(cmp.Compare(y.RSS, x.RSS), cmp.Compare(x.PID, y.PID))
	})
	out := make([]member, 0, len(all))
	for _, p := range all {
		out = append(out, member{p.Identity, printable(p.Comm), now})
	}
	return out
}
