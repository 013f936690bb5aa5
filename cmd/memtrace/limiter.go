//go:build linux && !viewer

package main

import (
	"errors"
	"math"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/procfs/ownthread"
	"github.com/memtrace/memtrace/tracer"
)

// A limiter keeps what the probes cost within a limit: it counts hits, asks a
// budget for the level to trace at, and remembers when each was in force.
//
// A burst has to be noticed while the session makes a Report. So it has a goroutine of its own, which goes to
// another level by itself. What a time without probes does to the live heap, and what a look begins with, is the session's: see
// followLimiter.
type limiter struct {
	tracer   *tracer.Tracer
	interval uint32 // of Sampled; Sparse has 16 times that
	started  uint64 // ns, CLOCK_MONOTONIC: of the trace
	changes  chan struct{}
	stopping chan struct{}
	wake     chan struct{} // a look has begun
	ends     endedTimes

	mu      sync.Mutex // of all below
	budget  tracer.Budget
	hits    tracer.Hits // at the last step
	at      uint64      // ns, CLOCK_MONOTONIC: of the last step
	charged map[int]chargedProcess
	cpu     map[int]uint64 // by process, at the last step
	spans   []report.Span
	total   map[string]uint64 // ns by mode
	probed  bool              // the first process has its probes
	blind   bool              // a time without probes has begun that the session does not know of
	touched bool              // in one, page faults had stacks
	unread  bool              // such a one has begun, and the session has not read what was there
	rss     map[int]resident  // by process, in such a time
	grown   int64             // bytes that processes have grown by in such times that are over
	ended   bool
	failed  error // why the overhead is not limited any more
}

const (
	limiterInterval = 64 << 10
	sparser         = 16
	maxSpans        = 256

	// What a limiter sleeps between two looks at the hits: while they come fast, else, and while there are no probes.
	busySleep   = 5 * time.Millisecond
	quietSleep  = 20 * time.Millisecond
	pausedSleep = windowInterval

	limiterNice = -10
)

// newLimiter calibrates; nil where no limit was set.
func newLimiter(limit float64, t *tracer.Tracer, interval uint32, started uint64) (*limiter, error) {
	if limit == 0 {
		return nil, nil
	}
	costs, err := t.Calibrate()
	if err != nil {
		return nil, err
	}
	l := &limiter{
		tracer: t, interval: limiterInterval, started: started, changes: make(chan struct{}, 1), stopping: make(chan struct{}), wake: make(chan struct{}, 1),
		budget:  tracer.Budget{Limit: limit, Costs: costs, CanTouch: t.Config().TouchInTurns},
		charged: make(map[int]chargedProcess), cpu: make(map[int]uint64),
		total: make(map[string]uint64), rss: make(map[int]resident),
	}
	if interval != 0 {
		l.budget.Floor, l.interval = tracer.Sampled, interval
	}
	return l, nil
}

// begin comes before the first attach. full: the processes will be seen from their first instruction, and so
// they are traced as fully as may be until that costs too much; else by sparse samples until it is known what
// they allocate.
func (l *limiter) begin(full bool) error {
	if l == nil {
		return nil
	}
	l.budget.StartFull = full
	if err := l.tracer.SetInterval(l.intervalOf(l.budget.Level())); err != nil {
		return err
	}
	ownthread.Go(l.run)
	return nil
}

// attached notes that a process has its probes.
func (l *limiter) attached() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.probed = true
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

// run looks at the hits until end, on a thread of its own.
func (l *limiter) run() {
	// Where all processors are busy a burst would cost much until it is noticed. The error is that of too few rights.
	_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), limiterNice)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-l.stopping:
			return
		case <-timer.C:
		case <-l.wake:
		}
		l.mu.Lock()
		wait := l.look(now())
		l.mu.Unlock()
		timer.Reset(wait)
	}
}

// look takes a step if there is something to decide, and says when to look again. The lock is held.
func (l *limiter) look(at uint64) time.Duration {
	if l.ended || l.failed != nil || len(l.charged) == 0 {
		return quietSleep
	}
	hits := l.tracer.Hits()
	if l.at == 0 || !l.probed && hits == l.hits { // probes that are not there yet say nothing
		l.at, l.hits = at, hits
		l.spent()
		l.budget.Restart(time.Duration(at - l.started))
		return busySleep
	}
	if at-l.at < uint64(windowInterval) && l.budget.Idle(hits.Sub(l.hits)) {
		return l.sleep(quietSleep)
	}
	l.step(at, hits)
	return l.sleep(busySleep)
}

// sleep is a time to sleep, where there are probes. The lock is held.
func (l *limiter) sleep(d time.Duration) time.Duration {
	switch l.budget.Level() {
	case tracer.Paused:
		return pausedSleep
	case tracer.None:
		return quietSleep
	}
	return d
}

// step tells the budget what came since the last step, and goes to the level that it asks for. The lock is held.
func (l *limiter) step(at uint64, hits tracer.Hits) {
	l.probed = true // some are there
	was := l.budget.Level()
	if was == tracer.None {
		l.growth() // as of now, should one end
	}
	l.note(was, at-l.started, at-l.at)
	level := l.budget.Observe(time.Duration(at-l.started), time.Duration(at-l.at), hits.Sub(l.hits), l.spent())
	l.at, l.hits = at, hits
	if level != was {
		l.enter(was, level)
	}
	if l.budget.Due(time.Duration(at - l.started)) {
		l.tell()
	}
}

// enter goes from one level to another, on which there are probes already, or to one without. The lock is held.
func (l *limiter) enter(was, level tracer.Level) {
	switch {
	case level < tracer.None:
		l.failed = l.tracer.SetInterval(l.intervalOf(level))
	case was == tracer.None:
		l.failed = l.endTouches()
	case level == tracer.None:
		l.failed = l.beginTouches() // before: what is touched meanwhile is seen twice, rather than never
		l.unread = true
		fallthrough
	default:
		l.failed = errors.Join(l.failed, l.tracer.Pause())
		l.blind = true
	}
	l.tell()
}

// beginTouches has page faults have stacks. The lock is held.
func (l *limiter) beginTouches() error {
	l.touched = true
	for pid, c := range l.charged {
		if bytes, ok := residentBytes(pid); ok && !c.exited && !c.shared {
			l.rss[pid] = resident{bytes, bytes}
		}
	}
	return l.tracer.TakeTouches(true)
}

// endTouches has them have none any more. The lock is held.
func (l *limiter) endTouches() error {
	l.grown += l.growth()
	clear(l.rss)
	return l.tracer.TakeTouches(false)
}

// growth is what processes have grown by since beginTouches, those that have ended until the last call before. The lock
// is held.
func (l *limiter) growth() (n int64) {
	for pid, r := range l.rss {
		if bytes, ok := residentBytes(pid); ok {
			r.last = bytes
			l.rss[pid] = r
		}
		n += r.last - r.first
	}
	return n
}

// tell has the session call followLimiter.
func (l *limiter) tell() {
	select {
	case l.changes <- struct{}{}:
	default: // it will
	}
}

// changed has something whenever followLimiter is to be called.
func (l *limiter) changed() <-chan struct{} {
	if l == nil {
		return nil
	}
	return l.changes
}

// end takes the last step. Nothing is changed any more.
func (l *limiter) end() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	l.ended = true
	close(l.stopping)
	l.grown += l.growth()
	clear(l.rss)
	if at := now(); l.at != 0 && l.failed == nil {
		l.note(l.budget.Level(), at-l.started, at-l.at)
	}
}

// hasTouched reports whether page faults have had stacks.
func (l *limiter) hasTouched() bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.touched
}

// takeBlind reports whether a time without probes has begun since the last call.
func (l *limiter) takeBlind() (blind bool) {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	blind, l.blind = l.blind, false
	return blind
}

// takeUnread reports whether a time in which page faults have stacks has begun since the last call, and the session
// knows.
func (l *limiter) takeUnread() (unread bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.blind {
		return false
	}
	unread, l.unread = l.unread, false
	return unread
}

// isDue reports whether it is time to resume.
func (l *limiter) isDue() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at != 0 && !l.ended && l.failed == nil && l.budget.Due(time.Duration(now()-l.started))
}

// problem says why the overhead is not limited any more, nil if it is.
func (l *limiter) problem() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// resume puts the probes back for a look.
func (l *limiter) resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	was := l.budget.Level()
	l.failed = l.tracer.SetInterval(l.intervalOf(max(tracer.Sparse, l.budget.Floor)))
	if l.failed == nil {
		l.failed = l.tracer.Resume()
	}
	if was == tracer.None {
		l.failed = errors.Join(l.failed, l.endTouches())
	}
	at, hits := now(), l.tracer.Hits()
	l.note(was, at-l.started, at-l.at)
	l.budget.Observe(time.Duration(at-l.started), time.Duration(at-l.at), hits.Sub(l.hits), l.spent())
	l.at, l.hits = at, hits
	l.budget.Look(time.Duration(at - l.started))
	select {
	case l.wake <- struct{}{}:
	default: // it is about to look
	}
}

// followLimiter does what a change of level asks of the session. It comes before all that depends on which blocks live.
func (s *session) followLimiter() {
	if s.limiter == nil || s.stopping { // as it stops, finish calls followPause
		return
	}
	s.followPause()
	if s.limiter.takeUnread() {
		// What is there was not touched first in this span. Where a reading takes long, this one comes later.
		s.correlate(false)
	}
	if s.limiter.isDue() {
		s.limiter.resume()
		s.readBaselines()
	}
	if err := s.limiter.problem(); err != nil {
		s.warn("the overhead is not limited any more: %v", err)
	}
}

// followPause drops what is known of live blocks as a time without probes has begun: they may have been freed unseen.
func (s *session) followPause() {
	if !s.limiter.takeBlind() {
		return
	}
	if !s.stopping && !s.syncEvents() { // else all have come
		s.warn("events from before a pause were not read in time: blocks that were freed in the pause may show as live")
	}
	s.take(input.Pause{})
	s.readBaselines()
}

// readBaselines reads what the processes have mapped: it may hold blocks that were not seen.
func (s *session) readBaselines() {
	for _, t := range s.targets {
		if t.exited {
			continue
		}
		if base, err := analyzer.ReadBaseline(t.held.Process); err == nil {
			t.base = base
		}
	}
}
