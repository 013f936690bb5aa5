package gate

import (
	"strings"
	"testing"
	"time"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/tracer/event"
)

// A job is judged by the Reports of an analyzer, a second apart, while processes
// come and go.
type job struct {
	t        *testing.T
	analyzer *analyzer.Analyzer
	judge    *Judge
	at       time.Duration
	addr     uint64
}

const shell = 100 // the process that the others are children of

func newJob(t *testing.T, rule string, warmUp time.Duration) *job {
	t.Helper()
	a := analyzer.New(analyzer.Config{FollowForks: true, WarmUp: uint64(warmUp)})
	t.Cleanup(a.Close)
	a.Take(input.Started{ProcessInfo: analyzer.ProcessInfo{PID: shell, Comm: "sh"}})
	return &job{t: t, analyzer: a, judge: New(Options{Rules: rules(t, rule), WarmUp: warmUp})}
}

func (j *job) event(e event.Event) {
	e.Time = uint64(j.at)
	j.analyzer.Take(&input.Events{Events: []event.Event{e}})
}

func (j *job) fork(child uint32) { j.event(event.Event{Kind: event.Fork, PID: shell, Child: child}) }
func (j *job) exec(pid uint32)   { j.event(event.Event{Kind: event.Exec, PID: pid, Child: pid}) }
func (j *job) exit(pid uint32)   { j.event(event.Event{Kind: event.Exit, PID: pid}) }
func (j *job) observe(n int)     { j.at += time.Duration(n) * time.Second; j.judge.Observe(j.report()) }

func (j *job) report() *report.Report {
	j.analyzer.Take(input.Instant{Now: uint64(j.at)})
	return j.analyzer.Report(analyzer.ReportOptions{})
}

func (j *job) outcome() *report.Outcome {
	j.at += time.Second
	return j.judge.Decide(j.report(), Evidence{})
}

// allocs makes n blocks of a size, none of which is freed.
func (j *job) allocs(pid uint32, n int, size uint64) {
	for range n {
		j.addr += 1 << 20
		j.event(event.Event{Kind: event.Alloc, PID: pid, TID: pid, Addr: j.addr, Size: size})
	}
}

// What one process had allocated when the warm-up was over is not subtracted
// from what another one allocates that gets its PID.
func TestWarmUpOfAProcessWhosePIDComesAgain(t *testing.T) {
	j := newJob(t, "allocs>59", 10*time.Second)
	j.fork(7)
	j.allocs(7, 40, 1)
	j.observe(10)
	j.exit(7)
	j.fork(7)
	j.allocs(7, 60, 1)
	if o := j.outcome(); o.Rules[0].Status != report.RuleFailed || o.Rules[0].Figure != "60" {
		t.Errorf("%+v, want 60 allocations after the warm-up", o.Rules[0])
	}
}

// Nor is what it had allocated before that: 30 of the first process are over.
func TestWarmUpOfBothProcessesOfAPID(t *testing.T) {
	j := newJob(t, "allocs>0", 10*time.Second)
	j.fork(7)
	j.allocs(7, 30, 1)
	j.exit(7)
	j.fork(7)
	j.allocs(7, 10, 1)
	j.observe(10)
	if o := j.outcome(); o.Rules[0].Status != report.RulePassed || o.Rules[0].Figure != "0" {
		t.Errorf("%+v, want none after the warm-up", o.Rules[0])
	}
}

// With an exec the counts start afresh, from nothing.
func TestWarmUpOfTheProgramBefore(t *testing.T) {
	j := newJob(t, "alloc.bytes>59", 10*time.Second)
	j.allocs(shell, 40, 1)
	j.observe(10)
	j.exec(shell)
	j.allocs(shell, 60, 1)
	if o := j.outcome(); o.Rules[0].Figure != "60 B" {
		t.Errorf("%+v, want 60 B after the warm-up", o.Rules[0])
	}
}

// Children that are summed up stand under their parent's PID, and have nothing
// to do with what that one has allocated.
func TestWarmUpOfChildrenThatAreSummedUp(t *testing.T) {
	const listed = 1024
	j := newJob(t, "allocs>59", 10*time.Second)
	for i := range uint32(listed - 1) {
		j.fork(1000 + i)
	}
	j.fork(7) // the first that is summed up
	j.allocs(7, 15, 1)
	j.allocs(shell, 40, 1)
	j.observe(10)
	j.allocs(7, 20, 1)
	j.exit(7)
	j.fork(8)
	j.allocs(8, 40, 1)
	if o := j.outcome(); o.Rules[0].Figure != "60" {
		t.Errorf("%+v, want 60 allocations after the warm-up", o.Rules[0])
	}
}

// The course of a large process that has ended and that of one that grows under
// its PID are two.
func TestGrowthOfAProcessWhosePIDComesAgain(t *testing.T) {
	j := newJob(t, "growth>59KiB/min", 0)
	j.fork(7)
	j.allocs(7, 1, 100<<20)
	for range 5 {
		j.observe(1)
	}
	j.exit(7)
	j.fork(7)
	for range 5 {
		j.allocs(7, 1, 1<<10)
		j.observe(1)
	}
	done := j.outcome().Rules[0]
	if done.Status != report.RuleFailed || !strings.HasPrefix(done.Figure, "60.0 KiB/min (process 7 ") {
		t.Errorf("%+v, want the second one's growth of 60 KiB/min", done)
	}
}

// Nor is the program that a process executes a continuation of the one before.
func TestGrowthOfAProgramThatWasExecuted(t *testing.T) {
	j := newJob(t, "growth>59KiB/min", 0)
	j.allocs(shell, 1, 100<<20)
	for range 5 {
		j.observe(1)
	}
	j.exec(shell)
	for range 5 {
		j.allocs(shell, 1, 1<<10)
		j.observe(1)
	}
	if o := j.outcome(); o.Rules[0].Status != report.RuleFailed {
		t.Errorf("%+v, want the second one's growth of 60 KiB/min", o.Rules[0])
	}
}

// A process counts by how it grew also after its end, when its course is kept no longer.
func TestGrowthOfAProcessThatEnded(t *testing.T) {
	j := newJob(t, "growth>59KiB/min", 0)
	j.fork(7)
	for range 5 {
		j.allocs(7, 1, 1<<10)
		j.observe(1)
	}
	j.exit(7)
	j.observe(1)
	if len(j.judge.courses) != 1 {
		t.Errorf("%d courses are kept, want the shell's alone", len(j.judge.courses))
	}
	if o := j.outcome(); o.Rules[0].Status != report.RuleFailed {
		t.Errorf("%+v, want 60 KiB/min", o.Rules[0])
	}
}

// A limit on a process by its PID or name is on that one, not on its children.
func TestLimitOnTheParentOfChildrenThatAreSummedUp(t *testing.T) {
	for _, rule := range []string{"allocs(pid:7)>100", "heap(pid:7)>1000"} {
		j := New(Options{Rules: rules(t, rule)})
		r := at(time.Second, 1000, 60, 200)
		r.Processes = append(r.Processes, report.Process{ID: 2, PID: 7, Comm: "service", Children: 5,
			Heap: report.Heap{AllocCount: 60, PeakBytes: 2000}})
		if done := j.Decide(r, Evidence{}).Rules[0]; done.Status != report.RulePassed {
			t.Errorf("%s: %+v", rule, done)
		}
	}
}

// Once free has its probe after all, no look is made any more, and each Report tells what lives.
func TestGrowthGoesOnAsFreesAreSeen(t *testing.T) {
	c := &course{}
	for second := range uint64(6) {
		walk := &report.FreeWalk{WalkedNS: 1, SeenSinceNS: 2}
		c.add(second*uint64(time.Second), &report.Process{Heap: report.Heap{LiveBytes: 1000 * second}, FreeWalk: walk})
	}
	if slope, ok := c.slope(); !ok || slope != 1000 {
		t.Errorf("%g bytes a second (%v), want 1000", slope, ok)
	}
	c = &course{}
	for second := range uint64(6) {
		walk := &report.FreeWalk{WalkedNS: 1}
		c.add(second*uint64(time.Second), &report.Process{Heap: report.Heap{LiveBytes: 1000 * second}, FreeWalk: walk})
	}
	if len(c.points) != 1 {
		t.Errorf("one look gives %d points", len(c.points))
	}
}
