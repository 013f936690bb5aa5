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
	refused map[collect.Identity]bool // of those in ordered
	last    Feed                      // its figures; zero before the first
	unwell  time.Time                 // since when nothing is recorded
	begun   bool                      // the tracer can trace
	orders  int                       // since the last Feed
	dear    int                       // Feeds in a row that cost too much
	pause   time.Duration
}

const endedItself = "the tracer ended by itself"

// traced is a process that the tracer was told to trace.
type traced struct {
	program string
	since   time.Time
}

func (s *segment) options(w *watch) tracerOptions {
	return tracerOptions{
		interval: min(w.config().Interval, maxTracerInterval), recording: s.path, most: 2 * s.most,
		cache: w.history.cacheOf(), log: w.log, service: w.service,
	}
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
			s.why = "the agent ended, or the service is to be watched no longer"
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
		if len(s.ordered) >= maxTraced || s.last.Listed+s.orders >= maxListed {
			return // they count as unwatched
		}
		if s.tracer.order(Order{m.PID, m.StartTime}) != nil {
			return // it has ended, which is noticed
		}
		s.orders++
		s.ordered[m.Identity] = traced{m.program, time.Now()}
		w.audit.write(auditEntry{What: auditTrace, Service: w.service, Why: w.why(), PID: m.PID, Program: m.program})
	}
}

// take takes what the tracer tells, and decides whether it is to end.
func (s *segment) take(w *watch, f *Feed) {
	if err := w.ledger.take(f); err != nil {
		s.why = err.Error()
		return
	}
	s.begun, s.orders = true, 0
	cpu, faults := time.Duration(more(f.CPUNS, s.last.CPUNS)), more(f.Faults, s.last.Faults)
	span := time.Duration(more(f.WindowNS, s.last.WindowNS))
	w.watches(f.Watched)
	w.change(func(st *WatchState) {
		if !st.Up { // only now is it known that it may trace
			st.Up, st.Since, st.Recording, st.Problem = true, s.began, s.path, s.problem
		}
		st.Grown, st.Before, st.Unexplained = f.Grown, f.Before, f.Unexplained
		st.Processes, st.Resident = len(f.Watched), f.Resident
		st.CPU += cpu
		st.Faults += faults
		st.Lost += more(f.Lost, s.last.Lost)
		st.Missed += more(f.Missed, s.last.Missed)
		if f.RecordError != "" && s.unwell.IsZero() {
			st.HistoryFails++
			st.Recording, st.Problem = "", "nothing is recorded: "+f.RecordError
		}
	})
	s.last = *f
	s.last.Frames, s.last.Stacks, s.last.Sites = nil, nil, nil // the ledger has them
	for _, pid := range f.Refused {
		s.refuse(w, pid)
	}
	if (f.RecordError != "" || s.path == "") && s.unwell.IsZero() {
		s.unwell = time.Now()
	}
	w.prune(s)
	s.judge(f, cpu, faults, span)
}

// more is what a counter has more than before. A tracer's may fall, as a child turns out to be none.
func more(is, was uint64) uint64 { return is - min(was, is) }

// refuse notes that the tracer could not trace a process. It isn't told to again.
func (s *segment) refuse(w *watch, pid int) {
	e := auditEntry{What: auditRefused, Service: w.service, Why: "the agent's log says why", PID: pid}
	for id, m := range s.ordered {
		if id.PID == pid && !s.refused[id] {
			s.refused[id], e.Program = true, m.program
		}
	}
	w.audit.write(e)
}

// judge ends a tracer that is old enough, has had enough processes, or costs too much.
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
	case age >= leastSegment && (f.Listed >= maxListed || f.Missed > 0):
		s.why = "it has had enough processes"
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
