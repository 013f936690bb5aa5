package agent

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/cmd/memtrace/agent/alert"
	"github.com/memtrace/memtrace/procfs/collect"
)

// What is wrong with a trace is said by line and field.
func TestWrongTraces(t *testing.T) {
	for text, want := range map[string]string{
		"alerts:\n- name: a\n  when: swap>80%\n  trace: 1m":                             "line 4: alerts: alert 1: trace: swap is about the machine, and only a service can be traced",
		"alerts:\n- name: a\n  when: rss(other)>1\n  trace: 1m":                         "line 4: alerts: alert 1: trace: other is no service",
		"alerts:\n- name: a\n  when: rss(x)>1\n  trace: 11m":                            "line 4: alerts: alert 1: trace.for: 11m0s is not from 1s to 10m0s",
		"alerts:\n- name: a\n  when: rss(x)>1\n  trace:\n    leaks: true\n    for: 1ms": "line 6: alerts: alert 1: trace.for: 1ms is not from 1s to 10m0s",
		"alerts:\n- name: a\n  when: rss(x)>1\n  trace:\n    every: 1s":                 "line 5: alerts: alert 1: trace.every: 1s is not from 1m0s to ",
		"alerts:\n- name: a\n  when: rss(x)>1\n  trace: {max_overhead: 0.01%}":          "line 4: alerts: alert 1: trace.max_overhead: \"0.01%\" is no share from 0.1% to 1000%",
		"alerts:\n- name: a\n  when: rss(x)>1\n  trace: {max_overhead: 5}":              "line 4: alerts: alert 1: trace.max_overhead: \"5\" is no share",
		"alerts:\n- name: a\n  when: rss(x)>1\n  trace: {max_overhead: 1001%}":          "is no share",
		"alerts:\n- name: a\n  when: rss(x)>1\n  trace: {max_overhead: NaN%}":           "is no share",
		"alerts:\n- name: a\n  when: rss(x)>1\n  trace:\n    fore: 1m":                  "line 5: there is no field fore; there are for, leaks, max_overhead, every",
		"alerts:\n- name: a\n  when: rss(x)>1\n  trace: soon":                           "line 4: `soon` is not a time, such as 10s",
		"alerts:\n- name: a\n  when: rss(x)>1\n  trace: true":                           "line 4: `true` is not a time, such as 10s",
		"alerts:\n- name: a\n  when: rss(x)>1\n  trace: [1m]":                           "line 4: is not a time, such as 1m, nor fields",
		"alerts:\n- name: a\n  when: rss(x)>1\n  trace: {leaks: some}":                  "line 4: `some` is not true or false",
	} {
		_, err := ParseConfig([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// A time alone, or some of the fields, leaves the rest as it is by default.
func TestTraceDefaults(t *testing.T) {
	for text, want := range map[string]alert.Trace{
		"1m":                         alert.DefaultTrace(),
		"{}":                         alert.DefaultTrace(),
		"90s":                        {For: 90 * time.Second, Leaks: true, MaxOverhead: "5%", Every: time.Hour},
		"{leaks: false, every: 24h}": {For: time.Minute, MaxOverhead: "5%", Every: 24 * time.Hour},
		"{max_overhead: 0.5%}":       {For: time.Minute, Leaks: true, MaxOverhead: "0.5%", Every: time.Hour},
	} {
		c, err := ParseConfig([]byte("alerts: [{name: a, when: growth(*)>1MiB/h, trace: " + text + "}, {name: b, when: rss(shop)>1}]"))
		if err != nil || *c.Alerts[0].Trace != want || c.Alerts[1].Trace != nil {
			t.Errorf("%s: %+v, %v", text, c.Alerts, err)
			continue
		}
		if !c.traces() || !c.tracesOf("shop") || !c.tracesOf("a (user 7)") || c.tracesOf("other") || c.tracesOf("") {
			t.Errorf("%s: services that may be traced", text)
		}
	}
	if c, err := ParseConfig([]byte("alerts: [{name: b, when: rss(shop)>1}]")); err != nil || c.traces() || c.tracesOf("shop") {
		t.Errorf("%+v, %v: nothing is to be traced", c, err)
	}
}

// tracing are traces of services that an agent doesn't have: each lasts until the test ends it.
type tracing struct {
	*traces
	said  bytes.Buffer
	now   time.Time
	ends  chan traceEnd
	begun []*traceJob
	rules map[string]*alert.Rule
	users map[string]uint32 // by service that a user has named; 0 for root. A rule has named the others
}

func newTracing(t *testing.T, config string) *tracing {
	t.Helper()
	c, err := ParseConfig([]byte(config))
	if err != nil {
		t.Fatal(err)
	}
	x := &tracing{now: time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC), ends: make(chan traceEnd), users: make(map[string]uint32)}
	x.rules = make(map[string]*alert.Rule)
	for i := range c.Alerts {
		x.rules[c.Alerts[i].Name] = &c.Alerts[i]
	}
	x.traces = newTraces(log.New(&x.said, "", 0), func(ctx context.Context, j *traceJob) traceEnd {
		x.begun = append(x.begun, j)
		select {
		case e := <-x.ends:
			return e
		case <-ctx.Done():
			return traceEnd{why: "the agent ended", took: time.Second}
		}
	})
	return x
}

// pass is a pass in which alerts change: "name service" begins to fire, and "-name service" is over. Each service has processes.
func (x *tracing) pass(after time.Duration, changes ...string) {
	x.now = x.now.Add(after)
	var all []alert.Change
	for _, text := range changes {
		over := strings.HasPrefix(text, "-")
		name, service, _ := strings.Cut(strings.TrimPrefix(text, "-"), " ")
		all = append(all, alert.Change{Rule: x.rules[name], Service: service, Firing: !over})
	}
	x.take(all, x.now, func(service string) (bool, uint32) {
		user, named := x.users[service]
		return !named, user
	})
	x.step(x.now, func(service string) (all []*collect.Process) {
		if strings.HasPrefix(service, "empty") {
			return nil
		}
		return []*collect.Process{{Identity: collect.Identity{PID: 7}, Comm: service}}
	})
	synctest.Wait()
}

// finish ends the trace that runs.
func (x *tracing) finish(e traceEnd) {
	x.ends <- e
	synctest.Wait()
}

func (x *tracing) services() string {
	var all []string
	for _, j := range x.begun {
		all = append(all, j.service)
	}
	return strings.Join(all, " ")
}

// check compares what began so far, and what runs, waits and was dropped.
func (x *tracing) check(t *testing.T, what, begun string, running, waiting int, dropped uint64) {
	t.Helper()
	c, r, w := x.figures()
	if x.services() != begun || r != running || w != waiting || c.dropped != dropped || c.started != uint64(len(x.begun)) {
		t.Errorf("%s: begun %q, running %d, waiting %d, dropped %d of %+v; %s", what, x.services(), r, w, c.dropped, c, &x.said)
	}
}

const everything = "alerts: [{name: grows, when: growth(*)>1MiB/h, trace: 1m}, {name: large, when: rss(*)>1, trace: {every: 10m}}, {name: none, when: rss(*)>1}]"

// One is traced at a time. A service is traced once an hour, or as its alert says, whichever alert fires.
func TestTracesAreOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTracing(t, everything)
		x.pass(0, "none a")
		x.check(t, "an alert without a trace", "", 0, 0, 0)
		x.pass(0, "grows a", "grows b", "large a")
		x.check(t, "two services, one of them by two alerts", "a", 1, 1, 1)
		if s := x.of("large", "a"); s.State != traceNone || s.Dropped != "alert grows has it traced already" {
			t.Errorf("%+v", s)
		}
		x.pass(time.Second)
		x.check(t, "the next pass", "a", 1, 1, 1)
		found := &Findings{Checked: 1, Leaks: []LeakFound{{"definite", 10, 1}}}
		x.finish(traceEnd{file: "/a", took: time.Minute, cpu: 2 * time.Second, why: "its time was over", results: found})
		x.check(t, "the next one begins with a pass", "a", 0, 1, 1)
		x.pass(time.Minute)
		x.check(t, "and then it has begun", "a b", 1, 0, 1)
		if s := x.of("grows", "a"); s.State != traceDone || s.File != "/a" || s.Found != found || s.Why != "its time was over" || s.Seconds != 60 {
			t.Errorf("%+v", s)
		}
		x.finish(traceEnd{why: "it failed", failed: true})
		x.pass(time.Minute, "-grows a", "-grows b")
		x.pass(time.Minute, "grows a")
		x.check(t, "an alert that flaps", "a b", 0, 0, 2)
		if s := x.of("grows", "a"); s.State != traceDone || s.File != "/a" || !strings.HasPrefix(s.Dropped, "it was traced 3m1s ago, less than 1h0m0s") {
			t.Errorf("what was found is gone: %+v", s)
		}
		x.pass(8*time.Minute, "large a")
		x.check(t, "an alert with a shorter time", "a b a", 1, 0, 2)
		x.finish(traceEnd{})
		x.pass(time.Hour, "grows a")
		x.check(t, "an hour later", "a b a a", 1, 0, 2)
		if c, _, _ := x.figures(); c.failed != 1 || c.cpu != 2*time.Second {
			t.Errorf("%+v", c)
		}
		x.close()
		x.wait()
	})
}

// What is over before its turn is not traced, nor what has no processes then. What runs goes on.
func TestTracesThatAreOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTracing(t, everything)
		x.pass(0, "grows a", "grows b", "grows empty", "grows c")
		x.check(t, "all fire", "a", 1, 3, 0)
		x.pass(time.Second, "-grows a", "-grows b", "-large c")
		x.check(t, "three are over", "a", 1, 2, 1)
		x.finish(traceEnd{})
		x.pass(time.Second)
		x.check(t, "one without processes", "a c", 1, 0, 2)
		if s := x.of("grows", "b"); s.State != traceNone || !strings.Contains(s.Dropped, "over before its turn") {
			t.Errorf("%+v", s)
		}
		if s := x.of("grows", "empty"); s.State != traceNone || !strings.Contains(s.Dropped, "no processes") {
			t.Errorf("%+v", s)
		}
		x.close()
		x.wait()
		if s := x.of("grows", "c"); s.State != traceDone || s.Why != "the agent ended" {
			t.Errorf("%+v", s)
		}
		x.pass(time.Hour, "grows d")
		x.check(t, "after the end", "a c", 0, 1, 2)
	})
}

// So many wait at most. What rules have named goes before what root has, and that before what users have, each of whom
// has one at a time.
func TestTracesWaitInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTracing(t, everything)
		x.users = map[string]uint32{"u1": 1000, "u2": 1000, "v": 1001, "r1": 0, "r2": 0}
		x.pass(0, "grows u1", "grows u2", "grows v", "grows r1", "grows r2", "grows shop", "grows db")
		x.check(t, "users", "shop", 1, 5, 1)
		if s := x.of("grows", "u2"); !strings.Contains(s.Dropped, "another service of user 1000") {
			t.Errorf("%+v", s)
		}
		for range 5 {
			x.finish(traceEnd{})
			x.pass(time.Second)
		}
		x.check(t, "in order", "shop db r1 r2 u1 v", 1, 0, 1)
		var many []string
		for i := range maxWaiting + 3 {
			many = append(many, fmt.Sprintf("grows s%d", i))
		}
		x.pass(time.Second, many...)
		x.check(t, "too many", "shop db r1 r2 u1 v", 1, maxWaiting, 4)
		x.close()
		x.wait()
	})
}

// Where too many wait, what users have named makes room, and then what root has: the last of them, for what a rule
// names first.
func TestTracesMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTracing(t, everything)
		x.pass(0, "grows runs")
		var first []string
		for i := range maxWaiting - 1 {
			name := fmt.Sprintf("u%d", i)
			x.users[name] = uint32(1000 + i)
			first = append(first, "grows "+name)
		}
		x.users["root's"], x.users["root's too"], x.users["late"] = 0, 0, 5000
		x.pass(0, append(first, "grows root's")...)
		x.check(t, "full", "runs", 1, maxWaiting, 0)
		x.pass(0, "grows late")
		x.check(t, "one that is no better", "runs", 1, maxWaiting, 1)
		x.pass(0, "grows shop", "grows root's too")
		x.check(t, "two that are better", "runs", 1, maxWaiting, 3)
		for _, name := range []string{"late", fmt.Sprintf("u%d", maxWaiting-2), fmt.Sprintf("u%d", maxWaiting-3)} {
			if s := x.of("grows", name); s.State != traceNone || s.Dropped != "16 others wait" {
				t.Errorf("%s: %+v", name, s)
			}
		}
		var ruled []string
		for i := range maxWaiting {
			ruled = append(ruled, fmt.Sprintf("grows r%d", i))
		}
		x.pass(0, ruled...)
		x.check(t, "rules have all", "runs", 1, maxWaiting, 4+maxWaiting-1)
		if s := x.of("grows", "r15"); s.State != traceNone || x.of("grows", "root's").State != traceNone {
			t.Errorf("%+v", s)
		}
		x.close()
		x.wait()
	})
}

// All that a user has named is traced once in an alert's every together: names can be made up.
func TestTracesOfAUserAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTracing(t, everything)
		x.users = map[string]uint32{"u1": 1000, "u2": 1000, "v": 1001, "r1": 0, "r2": 0}
		x.pass(0, "grows u1")
		x.finish(traceEnd{})
		x.pass(time.Minute, "grows u2", "grows v")
		x.check(t, "another one of the user's", "u1 v", 1, 0, 1)
		if s := x.of("grows", "u2"); !strings.HasPrefix(s.Dropped, "a service of user 1000 was traced 1m0s ago, less than 1h0m0s") {
			t.Errorf("%+v", s)
		}
		x.finish(traceEnd{})
		x.pass(time.Minute, "grows r1", "grows r2")
		x.finish(traceEnd{})
		x.pass(time.Minute)
		x.check(t, "root's", "u1 v r1 r2", 1, 0, 1)
		x.finish(traceEnd{})
		x.pass(time.Hour, "grows u2")
		x.check(t, "an hour later", "u1 v r1 r2 u2", 1, 0, 1)
		x.close()
		x.wait()
	})
}

// What is remembered of services and alerts is bounded: users make as many as they like.
func TestTracesForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTracing(t, everything)
		for i := range maxRemembered {
			x.began[tracedKey{service: fmt.Sprint(i)}] = x.now.Add(time.Duration(i-2*maxRemembered) * time.Hour)
		}
		for i := range maxStates + 10 {
			x.set(traceID{"grows", fmt.Sprint(i)}, TraceState{State: traceDone, Since: x.now.Add(time.Duration(i) * time.Second)})
		}
		x.pass(0, "grows a")
		if len(x.began) != maxRemembered || x.began[tracedKey{service: "a"}].IsZero() || !x.began[tracedKey{service: "0"}].IsZero() || len(x.states) != maxStates || x.of("grows", "a") == nil || x.of("grows", "10") != nil {
			t.Errorf("%d services and %d alerts are remembered", len(x.began), len(x.states))
		}
		x.close()
		x.wait()
	})
}

// Who makes up names, whose traces are dropped, doesn't push out what was found of others.
func TestTracesKeepWhatWasFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTracing(t, everything)
		x.set(traceID{"grows", "shop"}, TraceState{State: traceDone, Since: x.now.Add(-time.Hour), File: "/shop"})
		x.set(traceID{"grows", "old"}, TraceState{State: traceNone, Since: x.now.Add(-time.Minute)})
		x.users["x0"] = 1000
		x.pass(0, "grows x0")
		for i := 1; i <= 2*maxStates; i++ {
			name := fmt.Sprintf("x%d", i)
			x.users[name] = 1000
			x.pass(time.Second, "grows "+name)
		}
		if s := x.of("grows", "shop"); len(x.states) != maxStates || s == nil || s.File != "/shop" || x.of("grows", "old") != nil {
			t.Errorf("%d states; of shop %+v", len(x.states), s)
		}
		if s := x.of("grows", "x0"); s == nil || s.State != traceRunning {
			t.Errorf("what runs is %+v", s)
		}
		x.close()
		x.wait()
	})
}

// What waits goes by a configuration that was read meanwhile. What runs goes on as it was.
func TestTracesFollowAReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTracing(t, everything)
		x.pass(0, "grows a", "large b", "grows c")
		is, err := ParseConfig([]byte("alerts: [{name: grows, when: growth(*)>1MiB/h}, {name: large, when: rss(*)>1, trace: {for: 7s, leaks: false}}]"))
		if err != nil {
			t.Fatal(err)
		}
		x.reload(is.Alerts, x.now)
		x.check(t, "one alert asks for none any more", "a", 1, 1, 1)
		if s := x.of("grows", "c"); s.State != traceNone || s.Dropped != "its alert asks for no trace any more" {
			t.Errorf("%+v", s)
		}
		x.reload(nil, x.now)
		x.check(t, "none is there any more: a pass says what is over", "a", 1, 1, 1)
		x.finish(traceEnd{})
		x.pass(time.Second)
		x.check(t, "the other", "a b", 1, 0, 1)
		if a, b := x.begun[0].how, x.begun[1].how; a != alert.DefaultTrace() || b.For != 7*time.Second || b.Leaks {
			t.Errorf("%+v, %+v", a, b)
		}
		x.close()
		x.wait()
	})
}

// The agent itself and what it has started are left out, and so is what has ended. The largest are chosen.
func TestTraceableProcesses(t *testing.T) {
	own := os.Getpid()
	var all []*collect.Process
	for i := range 20 {
		all = append(all, &collect.Process{Identity: collect.Identity{PID: 100 + i}, RSS: uint64(i), State: 'S'})
	}
	all = append(all, &collect.Process{Identity: collect.Identity{PID: own}, RSS: 1000, State: 'R'},
		&collect.Process{Identity: collect.Identity{PID: 300}, PPID: own, RSS: 1000, State: 'S'},
		&collect.Process{Identity: collect.Identity{PID: 301}, RSS: 1000, State: 'Z'})
	synctest.Test(t, func(t *testing.T) {
		x := newTracing(t, everything)
		x.take([]alert.Change{{Rule: x.rules["grows"], Service: "a", Firing: true}}, x.now, func(string) (bool, uint32) { return true, 0 })
		x.step(x.now, func(string) []*collect.Process { return all })
		synctest.Wait()
		j := x.begun[0]
		if len(j.processes) != maxFullyTraced || j.left != 20-maxFullyTraced || j.processes[0].PID != 119 || j.processes[15].PID != 104 {
			t.Errorf("%d are left; %+v", j.left, j.processes)
		}
		x.close()
		x.wait()
	})
}

// What a trace says may be of a hostile program's making. What it has not seen or kept is told.
func TestFindingsAreShownSafely(t *testing.T) {
	r := TraceResult{Found: Findings{Checked: 1, Leaks: make([]LeakFound, 100), Top: &SiteFound{Function: "a\x1b[1m\n" + strings.Repeat("é", 1000), File: "x\u202ey"}}}
	f := (&fullTrace{job: &traceJob{}, result: &r}).findings()
	if len(f.Leaks) != maxKinds || f.Top.Function != "a?[1m" || f.Top.File != "x?y" {
		t.Errorf("%+v", f.Top)
	}
	if long := brief(strings.Repeat("é", 1000)); len(long) > maxBrief+len("…") || !strings.HasPrefix(long, "éé") {
		t.Errorf("%q", long)
	}
	for want, f := range map[string]Findings{
		"no leaks":                     {Processes: 2, Checked: 2},
		"no leaks among what was seen": {Processes: 2, Checked: 2, PausedSeconds: 1},
		"no leaks among what was seen; for 1.5 seconds events came too fast, and a sample was taken": {
			Processes: 1, Checked: 1, PressedSeconds: 1.5,
		},
		"no leaks among what was seen; the recording has come to its largest size": {
			Processes: 2, Checked: 2, FullSeconds: 10, SampledSeconds: 1, RecordingFull: true,
		},
		"no leaks among what was seen; 1 of 2 that were traced were checked": {Processes: 2, Checked: 1},
		"no leaks among what was seen; 16 of its 40 processes were traced; 15 of 16 that were traced were checked; 3 events were lost": {
			Processes: 40, Untraced: 23, Refused: 1, Checked: 15, Lost: 3,
		},
		"no leaks among what was seen; to stay within its memory it has not kept 1 stacks of 2 allocations, nor tracked 3 blocks": {
			Processes: 1, Checked: 1, Shed: &report.Shed{Stacks: 1, Allocations: 2, Blocks: 3},
		},
		"no leaks; the recording has come to its largest size; the recording lacks 5 events": {
			Processes: 1, Checked: 1, RecordingFull: true, Unrecorded: 5,
		},
	} {
		if is := f.summary(); is != want {
			t.Errorf("%q, want %q", is, want)
		}
	}
	refused := fullTrace{
		job: &traceJob{left: 24, processes: make([]member, 16)}, result: &TraceResult{}, traced: map[collect.Identity]member{{PID: 7}: {}},
	}
	if f := refused.findings(); f.Processes != 40 || f.Untraced != 24 || f.Refused != 15 {
		t.Errorf("%+v", f)
	}
	empty := &Findings{}
	if s := empty.summary(); s != "no process was checked for leaks" {
		t.Error(s)
	}
}

// Why a trace ended, and whether that is a failure. One that saw nothing for most of its time has found no proof of anything.
func TestHowTracesEnd(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	there := map[collect.Identity]member{{PID: 7}: {}}
	for want, test := range map[string]struct {
		ctx     context.Context
		trace   fullTrace
		tooLong bool
		err     error
		failed  bool
	}{
		"its time was over":                                                  {trace: fullTrace{result: &TraceResult{TimeOver: true, Found: Findings{FullSeconds: 60}}}},
		"its processes have ended":                                           {ctx: over, trace: fullTrace{result: &TraceResult{Found: Findings{FullSeconds: 70}}}},
		"the agent ended before there was a result":                          {ctx: over, trace: fullTrace{traced: there}, failed: true},
		"the tracer took too long to end: its recording":                     {ctx: over, trace: fullTrace{traced: there}, err: errLate, failed: true},
		"the agent ended":                                                    {ctx: over, trace: fullTrace{result: &TraceResult{Early: true}}, err: errLate},
		"a signal ended it":                                                  {trace: fullTrace{result: &TraceResult{Early: true}}, failed: true},
		"it took 2m0s longer than its time":                                  {trace: fullTrace{traced: there}, tooLong: true, err: os.ErrProcessDone, failed: true},
		"not all is recorded: no space":                                      {trace: fullTrace{result: &TraceResult{TimeOver: true, RecordError: "no space\nhere"}}, failed: true},
		"none of its processes can be traced: no allocator":                  {trace: fullTrace{refused: "no allocator"}, err: os.ErrInvalid, failed: true},
		"it failed, and the agent's log has its own words: invalid argument": {trace: fullTrace{traced: there, refused: "x"}, err: os.ErrInvalid, failed: true},
		"it failed, and the agent's log has its own words: it told nothing":  {trace: fullTrace{traced: there}, failed: true},
		"for 40 of 60 seconds none of its allocations was seen, to keep within max_overhead 5%:": {trace: fullTrace{result: &TraceResult{TimeOver: true, Found: Findings{FullSeconds: 15, SampledSeconds: 5, NoneSeconds: 38, PausedSeconds: 2}}}, failed: true},
	} {
		if test.ctx == nil {
			test.ctx = t.Context()
		}
		test.trace.job = &traceJob{how: alert.DefaultTrace()}
		if why, failed := test.trace.ended(test.ctx, test.tooLong, test.err); !strings.HasPrefix(why, want) || failed != test.failed {
			t.Errorf("%q, failed %v; want %q", why, failed, want)
		}
	}
}

// A tracer that had no time to end in good order says so by its exit code. Its lines count up to then.
func TestTracerThatIsCutOff(t *testing.T) {
	const told = `echo '{"refused":[{"pid":7,"why":"no allocator"}]}'; `
	for script, want := range map[string]string{
		told + fmt.Sprintf("exit %d", LateExit): errLate.Error(),
		told + "exit 3":                         "none of its processes can be traced: no allocator",
		"exit 3":                                "it failed, and the agent's log has its own words: exit status 3",
		`echo '{'`:                              "it failed, and the agent's log has its own words: unexpected end of JSON input",
		told + `echo '{"ended":{"time_over":true,"found":{"checked_processes":1,"leaks":[],"full_seconds":1}}}'; exit 1`: "its time was over",
	} {
		a := &Agent{log: log.New(io.Discard, "", 0)}
		a.audit = newAudit(a.log)
		x := &fullTrace{
			agent: a, job: &traceJob{how: alert.DefaultTrace(), processes: make([]member, 1)}, cmd: exec.Command("sh", "-c", script),
			traced: map[collect.Identity]member{{PID: 7}: {}},
		}
		var err error
		if x.orders, err = x.cmd.StdinPipe(); err != nil {
			t.Fatal(err)
		}
		if x.lines, err = x.cmd.StdoutPipe(); err != nil {
			t.Fatal(err)
		}
		if err := x.cmd.Start(); err != nil {
			t.Fatal(err)
		}
		e := x.await(t.Context())
		if e.why != want || e.failed != (want != "its time was over") {
			t.Errorf("%s: %q, failed %v; want %q", script, e.why, e.failed, want)
		}
		if e.results != nil && (e.results.Refused != 1 || e.results.Processes != 1) {
			t.Errorf("%s: %+v", script, e.results)
		}
	}
}
