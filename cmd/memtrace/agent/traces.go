package agent

import (
	"context"
	"fmt"
	"log"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/memtrace/memtrace/cmd/memtrace/agent/alert"
	"github.com/memtrace/memtrace/procfs/collect"
)

// traces have services traced that alerts fire for, one at a time on the machine. Further ones wait, and one whose alert is
// over meanwhile is not made. A service is traced once in its alert's Every at most, so that an alert that comes and goes
// can't keep it slowed. The collecting goroutine calls take and step; they read no clock.
type traces struct {
	log   *log.Logger
	trace func(context.Context, *traceJob) traceEnd
	ctx   context.Context
	end   context.CancelFunc
	group sync.WaitGroup

	mu      sync.Mutex
	waiting []*traceJob // in the order in which they begin
	running *traceJob   // nil: none
	began   map[tracedKey]time.Time
	states  map[traceID]*TraceState
	counts  traceCounts
	closed  bool
}

// traceID is an alert and a service. An alert is known by its name: /alerts has it so.
type traceID struct{ alert, service string }

// tracedKey is what is traced once in an alert's Every: a service, or all together that a user has named. Who could
// make up a name for each trace would be traced all the time.
type tracedKey struct {
	service string // "": of the user's
	user    uint32
}

// traceJob is a trace that an alert has asked for.
type traceJob struct {
	traceID
	key   string // of the alert's rule
	how   alert.Trace
	named bool   // a rule has named the service
	user  uint32 // who has named it otherwise; 0 for root
	began time.Time
	was   *TraceState // before it was asked for; nil: there was none

	processes []member // chosen as it begins
	left      int      // processes of the service that are not among them
}

func (j *traceJob) ofUser() bool { return !j.named && j.user != 0 }

func (j *traceJob) tracedKey() tracedKey {
	if j.ofUser() {
		return tracedKey{user: j.user}
	}
	return tracedKey{service: j.service}
}

// rank is by whom the service was named: a rule, root, or else a user, who may have made it up. The lower one goes
// first, and keeps its place where too many wait.
func (j *traceJob) rank() int {
	switch {
	case j.named:
		return 0
	case j.user == 0:
		return 1
	}
	return 2
}

// traceEnd is what became of a trace.
type traceEnd struct {
	file    string // path of the recording; "": there is none
	took    time.Duration
	cpu     time.Duration // of the tracer
	why     string        // it ended
	failed  bool
	results *Findings // nil: it told none
}

// traceCounts are counted since the agent began.
type traceCounts struct {
	started, failed, dropped uint64
	cpu                      time.Duration
}

// TraceState is what became of the traces that an alert had made of a service.
type TraceState struct {
	State   string    `json:"state"`             // waiting, running, done, failed; none: it had none yet
	Since   time.Time `json:"since"`             // when it came to be so
	File    string    `json:"file,omitempty"`    // path of the recording
	Seconds float64   `json:"seconds,omitempty"` // that it took
	Why     string    `json:"why,omitempty"`     // it ended
	Found   *Findings `json:"found,omitempty"`
	Dropped string    `json:"dropped,omitempty"` // why there was none when the alert fired last
}

const (
	traceNone    = "none"
	traceWaiting = "waiting"
	traceRunning = "running"
	traceDone    = "done"
	traceFailed  = "failed"

	// maxFullyTraced is how many processes of a service a trace is of: those with most resident memory.
	maxFullyTraced = 16
	maxWaiting     = 16
	// What is remembered of services and alerts: users can make as many services as they like.
	maxRemembered = 10_000
	maxStates     = 1000
)

func newTraces(l *log.Logger, trace func(context.Context, *traceJob) traceEnd) *traces {
	x := &traces{log: l, trace: trace, began: make(map[tracedKey]time.Time), states: make(map[traceID]*TraceState)}
	x.ctx, x.end = context.WithCancel(context.Background())
	return x
}

// take queues what begins to fire, and takes back what is over and hasn't begun. who says whether a rule has named a
// service, and which user else.
func (x *traces) take(changes []alert.Change, now time.Time, who func(service string) (named bool, user uint32)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i := range changes {
		c := &changes[i]
		if !c.Firing {
			x.cancel(c, now)
			continue
		}
		if !c.Rule.Traces(c.Service) {
			continue
		}
		j := &traceJob{traceID: traceID{c.Rule.Name, c.Service}, key: c.Rule.Key(), how: *c.Rule.Trace}
		j.named, j.user = who(c.Service)
		if why := x.refuses(j, now); why != "" {
			x.drop(j, why, now)
			continue
		}
		x.makeRoom(now)
		j.was = x.states[j.traceID]
		x.set(j.traceID, TraceState{State: traceWaiting, Since: now})
		at := slices.IndexFunc(x.waiting, func(o *traceJob) bool { return o.rank() > j.rank() })
		if at < 0 {
			at = len(x.waiting)
		}
		x.waiting = slices.Insert(x.waiting, at, j)
	}
}

// full reports whether there is no room for a trace: so many wait, and the last of them, which has the highest rank,
// has none higher than its own. The lock is held.
func (x *traces) full(j *traceJob) bool {
	return len(x.waiting) >= maxWaiting && x.waiting[len(x.waiting)-1].rank() <= j.rank()
}

// makeRoom has the last one wait no longer where too many wait. The lock is held.
func (x *traces) makeRoom(now time.Time) {
	if len(x.waiting) < maxWaiting {
		return
	}
	last := x.waiting[len(x.waiting)-1]
	x.waiting = x.waiting[:len(x.waiting)-1]
	x.drop(last, fmt.Sprintf("%d others wait", maxWaiting), now)
}

// refuses says why there is to be no trace, "" where there is. The lock is held.
func (x *traces) refuses(j *traceJob, now time.Time) string {
	for _, o := range append(slices.Clone(x.waiting), x.running) {
		switch {
		case o == nil:
		case o.service == j.service:
			return "alert " + o.alert + " has it traced already"
		case j.ofUser() && o.tracedKey() == j.tracedKey():
			return fmt.Sprintf("another service of user %d is to be traced first: one of those that a user has named at a time", j.user)
		}
	}
	if at, known := x.began[j.tracedKey()]; known && now.Sub(at) < j.how.Every {
		what := "it"
		if j.ofUser() {
			what = fmt.Sprintf("a service of user %d", j.user)
		}
		return fmt.Sprintf("%s was traced %v ago, less than %v (every)", what, now.Sub(at).Round(time.Second),
			j.how.Every)
	}
	if x.full(j) {
		return fmt.Sprintf("%d others wait", maxWaiting)
	}
	return ""
}

// cancel takes a trace back that hasn't begun. The lock is held.
func (x *traces) cancel(c *alert.Change, now time.Time) {
	x.waiting = slices.DeleteFunc(x.waiting, func(j *traceJob) bool {
		is := j.key == c.Rule.Key() && j.service == c.Service
		if is {
			x.drop(j, "the alert was over before its turn came", now)
		}
		return is
	})
}

// drop notes a trace that is not made. The lock is held.
func (x *traces) drop(j *traceJob, why string, now time.Time) {
	x.counts.dropped++
	x.log.Printf("alert %s: %q is not traced: %s", j.alert, j.service, why)
	s, was := TraceState{State: traceNone, Since: now}, x.states[j.traceID]
	if was != nil && was.State == traceWaiting {
		was = j.was
	}
	if was != nil {
		s = *was // what the last one has found stays
	}
	s.Dropped = why
	x.set(j.traceID, s)
}

// set notes how an alert's trace is, and forgets one that is over where there are too many. The lock is held.
func (x *traces) set(id traceID, s TraceState) {
	if x.states[id] == nil && len(x.states) >= maxStates {
		x.forget()
	}
	x.states[id] = &s
}

// forget drops the oldest state: of those without a trace, as long as there are any. Who makes up names, of services
// whose traces are dropped, must not push out what was found of others. The lock is held.
func (x *traces) forget() {
	before := func(s, o *TraceState) bool {
		if none := s.State == traceNone; none != (o.State == traceNone) {
			return none
		}
		return s.Since.Before(o.Since)
	}
	var oldest *traceID
	for id, s := range x.states {
		if s.State != traceWaiting && s.State != traceRunning && (oldest == nil || before(s, x.states[*oldest])) {
			oldest = &id
		}
	}
	if oldest != nil {
		delete(x.states, *oldest)
	}
}

// reload has what waits go by the alerts of another configuration, where they are in it still. What runs ends as it
// began.
func (x *traces) reload(rules []alert.Rule, now time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	by := make(map[string]*alert.Rule, len(rules))
	for i := range rules {
		by[rules[i].Key()] = &rules[i]
	}
	x.waiting = slices.DeleteFunc(x.waiting, func(j *traceJob) bool {
		r := by[j.key]
		if r == nil {
			return false // it is over, which the next pass tells
		}
		if !r.Traces(j.service) {
			x.drop(j, "its alert asks for no trace any more", now)
			return true
		}
		j.how = *r.Trace
		return false
	})
}

// step has the next trace begin if none runs. members are a service's processes as of this pass.
func (x *traces) step(now time.Time, members func(service string) []*collect.Process) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for x.running == nil && len(x.waiting) > 0 && !x.closed {
		j := x.waiting[0]
		x.waiting = x.waiting[1:]
		all := traceable(members(j.service))
		if len(all) == 0 {
			x.drop(j, "it has no processes that can be traced", now)
			continue
		}
		j.processes = byMemory(all, now)
		j.left = max(len(all)-maxFullyTraced, 0)
		j.processes = j.processes[:min(len(all), maxFullyTraced)]
		x.begin(j, now)
	}
}

// traceable leaves out what has no memory any more, and the agent itself with its children.
func traceable(all []*collect.Process) []*collect.Process {
	own := os.Getpid()
	return slices.DeleteFunc(slices.Clone(all), func(p *collect.Process) bool {
		return p.PID == own || p.PPID == own || p.State == 'Z' || p.State == 'X'
	})
}

// begin has a trace run. The lock is held.
func (x *traces) begin(j *traceJob, now time.Time) {
	x.running, j.began = j, now
	x.remember(j.tracedKey(), now)
	x.counts.started++
	x.set(j.traceID, TraceState{State: traceRunning, Since: now})
	x.group.Go(func() {
		e := x.trace(x.ctx, j)
		x.mu.Lock()
		defer x.mu.Unlock()
		x.ended(j, &e)
	})
}

// remember notes when something was traced, and forgets the oldest of too many. The lock is held.
func (x *traces) remember(k tracedKey, now time.Time) {
	x.began[k] = now
	if len(x.began) <= maxRemembered {
		return
	}
	oldest := k
	for other, at := range x.began {
		if at.Before(x.began[oldest]) {
			oldest = other
		}
	}
	delete(x.began, oldest)
}

// ended notes what became of a trace. The lock is held.
func (x *traces) ended(j *traceJob, e *traceEnd) {
	x.running = nil
	x.counts.cpu += e.cpu
	s := TraceState{
		State: traceDone, Since: j.began.Add(e.took), File: e.file, Seconds: e.took.Seconds(), Why: e.why, Found: e.results,
	}
	if e.failed {
		s.State = traceFailed
		x.counts.failed++
	}
	if was := x.states[j.traceID]; was != nil {
		s.Dropped = was.Dropped // it fired again meanwhile
	}
	x.set(j.traceID, s)
}

// of is how an alert's trace of a service is, nil where there was none.
func (x *traces) of(alert, service string) *TraceState {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.states[traceID{alert, service}]
	if s == nil {
		return nil
	}
	is := *s
	return &is
}

// figures are the counts, and how many traces run and wait.
func (x *traces) figures() (c traceCounts, running, waiting int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.running != nil {
		running = 1
	}
	return x.counts, running, len(x.waiting)
}

// close has what runs end, and begins nothing any more. wait returns once it has ended.
func (x *traces) close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = true
	x.end()
}

func (x *traces) wait() { x.group.Wait() }
