package agent

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/memtrace/memtrace/procfs/collect"
)

// watch has one service's growth traced, through restarts of the service and of the tracer. A tracer lasts for one
// recording.
type watch struct {
	service string
	config  func() *Config
	history *history
	audit   *audit
	log     *log.Logger
	ledger  *ledger
	news    chan struct{} // wanted has changed
	stop    context.CancelFunc
	done    chan struct{}

	mu      sync.Mutex
	wanted  []member
	because string       // it is watched, if not as a rule asks for it
	watched map[int]bool // PIDs of the processes that the tracer watches, as it told last
	state   WatchState
}

// member is a process of a service.
type member struct {
	collect.Identity
	program string
	seen    time.Time // first
}

// WatchState is how the watching of a service's growth goes.
type WatchState struct {
	Service   string    `json:"service"`
	Why       string    `json:"why"`               // it is watched
	Up        bool      `json:"up"`                // a tracer runs
	Since     time.Time `json:"since"`             // when it began; zero where none runs
	Processes int       `json:"processes"`         // that it traces
	Unwatched int       `json:"unwatched"`         // of the service's, that it doesn't
	Recording string    `json:"recording"`         // path of its recording; "" where nothing is recorded
	Problem   string    `json:"problem,omitempty"` // why no tracer runs, or nothing is recorded

	// The resident set of the traced processes: first touched since the tracer began, there before, and the rest.
	Grown       uint64 `json:"grown"`
	Before      uint64 `json:"before"`
	Unexplained int64  `json:"unexplained"`

	// Counted since the agent began.
	Watched      time.Duration `json:"watched_ns"`       // while a tracer ran
	Missed       uint64        `json:"processes_missed"` // children that came when the tracer had had enough processes
	Faults       uint64        `json:"faults"`
	Lost         uint64        `json:"lost"` // page faults that were not seen
	CPU          time.Duration `json:"tracer_cpu_ns"`
	Resident     uint64        `json:"tracer_resident"` // now
	Starts       uint64        `json:"starts"`          // of tracers
	Pauses       uint64        `json:"pauses"`          // as it cost too much
	HistorySize  int64         `json:"history_bytes"`
	HistoryGone  uint64        `json:"history_removed"` // recordings
	HistoryFails uint64        `json:"history_errors"`
}

const (
	// settleTime is how long a process has been known before it is traced by an order. Until then, the tracer may find
	// it by itself, as a child of one that it traces.
	settleTime = 2 * time.Second
	// maxTraced is how many processes a tracer is told to trace at a time; children that they make come on top.
	maxTraced = 256
	// maxListed is how many processes a tracer may have had, children included, before another one begins. It watches
	// no more children after 1,024. The next one begins after leastSegment only: each start costs a third of a second of
	// processor.
	maxListed    = 1000
	leastSegment = 10 * time.Minute

	minRestart   = time.Second
	maxRestart   = 5 * time.Minute
	soundTracer  = time.Minute // one that lasted so long was well
	retryHistory = 10 * time.Minute
	// A tracer that takes more than maxTracerCPU of a processor, or a service with more than maxFaultRate page faults a
	// second, is let alone for pauseTime.
	maxTracerCPU = 0.2
	maxFaultRate = 20_000
	pauseTime    = 10 * time.Minute
	startUpTime  = time.Minute // when names are looked up, and no processor time is taken for too much
)

func (w *watch) begin(ctx context.Context) {
	ctx, w.stop = context.WithCancel(ctx)
	w.done, w.news, w.ledger = make(chan struct{}), make(chan struct{}, 1), newLedger()
	w.state.Service = w.service
	go w.run(ctx)
}

// hasEnded reports whether it was stopped, and its tracer has ended.
func (w *watch) hasEnded() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// want says which processes the service has now, those with most memory first, and why it is watched; "": a rule asks
// for it.
func (w *watch) want(now []member, because string) {
	w.mu.Lock()
	w.because = because
	first := make(map[collect.Identity]time.Time, len(w.wanted))
	for _, m := range w.wanted {
		first[m.Identity] = m.seen
	}
	for i := range now {
		if at, known := first[now[i].Identity]; known {
			now[i].seen = at
		}
	}
	w.wanted = now
	w.mu.Unlock()
	select {
	case w.news <- struct{}{}:
	default:
	}
}

func (w *watch) members() []member {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.wanted
}

// State is how it goes now.
func (w *watch) State() WatchState {
	why := w.why()
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.state
	s.Why = why
	for i := range w.wanted {
		if !w.watched[w.wanted[i].PID] {
			s.Unwatched++
		}
	}
	if s.Up {
		s.Watched += time.Since(s.Since)
	}
	return s
}

// watches notes which processes the tracer watches. It may watch some that are not the service's: children that run
// another program.
func (w *watch) watches(pids []int) {
	watched := make(map[int]bool, len(pids))
	for _, pid := range pids {
		watched[pid] = true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watched = watched
}

// why is by which rule the service is watched, or for what else.
func (w *watch) why() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.because != "" {
		return w.because
	}
	return "rule " + w.service + ": growth"
}

func (w *watch) change(do func(*WatchState)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do(&w.state)
}

// run has tracers run, one after the other, while the service has processes.
func (w *watch) run(ctx context.Context) {
	defer close(w.done)
	rest := minRestart
	for ctx.Err() == nil {
		if len(w.members()) == 0 {
			w.await(ctx, w.news, time.Hour)
			continue
		}
		began := time.Now()
		pause, err := w.trace(ctx)
		if err != nil {
			w.change(func(s *WatchState) { s.Problem = err.Error() })
			w.log.Printf("growth of %s: %v", w.service, err)
		}
		if err == nil || time.Since(began) >= soundTracer {
			rest = minRestart
		}
		if err != nil {
			pause = max(pause, rest)
			rest = min(2*rest, maxRestart)
		}
		if pause > 0 {
			w.await(ctx, nil, pause)
		}
	}
}

// await returns when something is new, the time is over or ctx ends.
func (w *watch) await(ctx context.Context, news <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-news:
	case <-timer.C:
	}
}

// trace runs one tracer to its end. pause is for how long there is to be none.
func (w *watch) trace(ctx context.Context) (pause time.Duration, err error) {
	s := w.newSegment()
	if s.tracer, err = startTracer(s.options(w)); err != nil {
		return 0, err
	}
	w.ledger.begin()
	w.change(func(st *WatchState) { st.Starts++ })
	w.audit.write(auditEntry{
		What: auditTracer, Service: w.service, Why: w.why(), PID: s.tracer.cmd.Process.Pid, File: s.file(),
	})
	pause = s.follow(ctx, w)
	err = w.end(s)
	if ctx.Err() != nil {
		err = nil // it was killed along with the agent, maybe
	}
	return pause, err
}

// end ends a segment's tracer. One that the agent ends has not failed, however long that takes: why it did is what counts.
func (w *watch) end(s *segment) error {
	err := s.tracer.end(func(f *Feed) { s.take(w, f) })
	w.ended(s)
	switch {
	case s.why == endedItself && (err == nil || errors.Is(err, errLate)):
		return errors.New(endedItself)
	case errors.Is(err, errLate):
		w.log.Printf("growth of %s: %s; %v", w.service, s.why, err)
		return nil
	}
	return err
}

// ended notes the end of a tracer.
func (w *watch) ended(s *segment) {
	w.watches(nil)
	w.change(func(st *WatchState) {
		if st.Up {
			st.Watched += time.Since(s.began)
		}
		st.Up, st.Since, st.Processes, st.Resident = false, time.Time{}, 0, 0
		st.Grown, st.Before, st.Unexplained, st.Recording = 0, 0, 0, ""
		if s.pause > 0 {
			st.Pauses++
			st.Problem = fmt.Sprintf("let alone for %s: %s", short(s.pause), s.why)
		}
	})
	if s.pause > 0 {
		w.log.Printf("growth of %s: let alone for %s: %s", w.service, short(s.pause), s.why)
	}
	for id, m := range s.ordered {
		w.left(s, id, m)
	}
	w.audit.write(auditEntry{
		What: auditTracerEnd, Service: w.service, Why: s.why, PID: s.tracer.cmd.Process.Pid, File: s.file(),
		Seconds: time.Since(s.began).Seconds(), CPUSeconds: time.Duration(s.last.CPUNS).Seconds(),
	})
}

// left notes that a process is traced no more, unless it never was.
func (w *watch) left(s *segment, id collect.Identity, m traced) {
	delete(s.ordered, id)
	if s.refused[id] {
		delete(s.refused, id)
		return
	}
	w.audit.write(auditEntry{What: auditTraceEnd, Service: w.service, PID: id.PID, Program: m.program, Seconds: time.Since(m.since).Seconds()})
}

// newSegment chooses a recording, and makes room for it. Where there can be none, the service is watched without.
func (w *watch) newSegment() *segment {
	s := &segment{
		began: time.Now(), ordered: make(map[collect.Identity]traced), refused: make(map[collect.Identity]bool),
	}
	s.lasts, s.most = segmentBounds(w.config())
	var err error
	if s.path, err = w.history.newSegment(w.service, s.began); err != nil {
		s.path, s.problem = "", fmt.Sprintf("nothing is recorded: %v", err)
		w.log.Printf("growth of %s: %s", w.service, s.problem)
		w.change(func(st *WatchState) { st.HistoryFails++ })
	}
	w.prune(s)
	return s
}

// prune removes what is too old or too much.
func (w *watch) prune(s *segment) {
	size, removed, err := w.history.prune(w.service, s.path, w.config(), time.Now())
	if err != nil {
		w.log.Printf("growth of %s: %v", w.service, err)
	}
	w.change(func(st *WatchState) {
		st.HistorySize = size
		st.HistoryGone += uint64(removed)
	})
}
