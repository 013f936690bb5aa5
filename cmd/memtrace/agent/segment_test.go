package agent

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/memtrace/memtrace/procfs/collect"
)

// A tracer ends when its recording is long or large enough, to try again where nothing is recorded, and when it costs too
// much for longer than an interval; names that are looked up at its start are no reason.
func TestTracersEnd(t *testing.T) {
	const span = 10 * time.Second
	for what, test := range map[string]struct {
		age, unwell time.Duration // since it began, and since nothing is recorded; 0: it is
		recorded    int64
		listed      int
		missed      uint64
		cpu         []time.Duration // of each interval
		faults      uint64          // of each
		why         string
		pause       time.Duration
	}{
		"well":                     {age: time.Hour, recorded: 10, cpu: []time.Duration{time.Second, time.Second}},
		"long":                     {age: 25 * time.Hour, cpu: []time.Duration{0}, why: "the recording is long enough"},
		"large":                    {age: time.Hour, recorded: 100, cpu: []time.Duration{0}, why: "the recording is large enough"},
		"enough processes":         {age: leastSegment, listed: maxListed, cpu: []time.Duration{0}, why: "it has had enough processes"},
		"many processes":           {age: time.Hour, listed: maxListed - 1, cpu: []time.Duration{0}},
		"missed children":          {age: leastSegment, missed: 1, cpu: []time.Duration{0}, why: "it has had enough processes"},
		"missed them at once":      {age: leastSegment - time.Minute, listed: 1025, missed: 9, cpu: []time.Duration{0}},
		"not recorded":             {age: time.Hour, unwell: time.Minute, cpu: []time.Duration{0}},
		"not recorded for a while": {age: time.Hour, unwell: retryHistory, cpu: []time.Duration{0}, why: "it is tried again to record"},
		"dear once":                {age: time.Hour, cpu: []time.Duration{3 * time.Second, time.Second, 3 * time.Second}},
		"dear":                     {age: time.Hour, cpu: []time.Duration{3 * time.Second, 3 * time.Second}, why: "it cost too much", pause: pauseTime},
		"starting":                 {age: startUpTime / 2, cpu: []time.Duration{9 * time.Second, 9 * time.Second, 9 * time.Second}},
		"many faults":              {age: time.Second, faults: 10*maxFaultRate + 1, cpu: []time.Duration{0, 0}, why: "it cost too much", pause: pauseTime},
	} {
		s := &segment{began: time.Now().Add(-test.age), lasts: 24 * time.Hour, most: 100}
		if test.unwell > 0 {
			s.unwell = time.Now().Add(-test.unwell)
		}
		for _, cpu := range test.cpu {
			s.judge(&Feed{Recorded: test.recorded, Listed: test.listed, Missed: test.missed}, cpu, test.faults, span)
		}
		if s.why != test.why || s.pause != test.pause {
			t.Errorf("%s: %q, pause %v; want %q, %v", what, s.why, s.pause, test.why, test.pause)
		}
	}
}

// quietWatch is a watch without a tracer, and a segment of it.
func quietWatch(t *testing.T) (*watch, *segment) {
	t.Helper()
	c := Default()
	w := &watch{
		service: "shop", config: func() *Config { return &c }, history: opened(t),
		audit: newAudit(log.New(io.Discard, "", 0)), ledger: newLedger(), news: make(chan struct{}, 1),
	}
	w.audit.open(w.history.dir)
	return w, w.newSegment()
}

// A process of the service counts as unwatched until the tracer says that it watches it. Children that run another
// program are watched too, and take nothing from that.
func TestUnwatched(t *testing.T) {
	w, s := quietWatch(t)
	var members []*collect.Process
	for pid := range 3 {
		members = append(members, process(1+pid, 10, "shop", 5, 0))
	}
	w.want(byMemory(members, time.Now()), "")
	for i, step := range []struct {
		watched   []int
		unwatched int
	}{{nil, 3}, {[]int{1, 77, 78, 79}, 2}, {[]int{3, 1, 2}, 0}, {[]int{2}, 2}} {
		s.take(w, &Feed{Watched: step.watched})
		if st := w.State(); st.Unwatched != step.unwatched || st.Processes != len(step.watched) {
			t.Errorf("step %d: %d are watched, %d unwatched; want %d, %d", i, st.Processes, st.Unwatched, len(step.watched), step.unwatched)
		}
	}
}

// Children that a tracer had no room for are counted through all tracers, and a tracer that has had enough is given no
// more.
func TestEnoughProcesses(t *testing.T) {
	w, s := quietWatch(t)
	s.take(w, &Feed{Listed: maxListed - 1, Missed: 5})
	s.take(w, &Feed{Listed: maxListed - 1, Missed: 7})
	var orders strings.Builder
	s.tracer = &tracerProcess{orders: closing{&orders}}
	members := []*collect.Process{process(1, 10, "shop", 9, 0), process(2, 10, "shop", 5, 0)}
	w.want(byMemory(members, time.Now().Add(-time.Hour)), "")
	s.order(w)
	s.order(w)
	if want := "{\"pid\":1,\"start_time\":10}\n"; orders.String() != want || s.why != "" {
		t.Errorf("orders %q, want %q; %s", orders.String(), want, s.why)
	}
	next := w.newSegment()
	next.take(w, &Feed{Missed: 1})
	if st := w.State(); st.Missed != 8 {
		t.Errorf("%d children were missed, want 8", st.Missed)
	}
}

// A tracer that the agent ends as it costs too much has not failed, also where it has no time to end in good order, and breaks
// off in the midst of a line: the service is let alone, and that is why. One that fails by itself has failed.
func TestTracersThatEndLate(t *testing.T) {
	for what, test := range map[string]struct {
		program, why, wrong, problem string
	}{
		"in time": {program: "cat >/dev/null", why: "it cost too much", problem: "let alone for 10m: it cost too much"},
		"late": {
			program: "cat >/dev/null; printf '{\"fa'; exit " + strconv.Itoa(LateExit), why: "it cost too much",
			problem: "let alone for 10m: it cost too much",
		},
		"failed":    {program: "exit 1", why: endedItself, wrong: "the tracer failed"},
		"by itself": {program: "exit 0", why: endedItself, wrong: endedItself},
		"failed at its end": {
			program: "cat >/dev/null; exit 1", why: "it cost too much", wrong: "the tracer failed",
			problem: "let alone for 10m: it cost too much",
		},
	} {
		w, s := quietWatch(t)
		said := new(bytes.Buffer)
		w.log = log.New(said, "", 0)
		s.why, s.tracer = test.why, &tracerProcess{cmd: exec.Command("/bin/sh", "-c", test.program), feeds: make(chan *Feed)}
		if test.why != endedItself {
			s.pause = pauseTime
		}
		if err := s.tracer.start(); err != nil {
			t.Fatal(err)
		}
		err := w.end(s)
		if (err == nil) != (test.wrong == "") || err != nil && !strings.Contains(err.Error(), test.wrong) {
			t.Errorf("%s: %v, want %q", what, err, test.wrong)
		}
		if is := w.State().Problem; is != test.problem {
			t.Errorf("%s: %q, want %q", what, is, test.problem)
		}
		if !strings.Contains(said.String(), test.problem) {
			t.Errorf("%s: the log doesn't say %q: %s", what, test.problem, said)
		}
		all := entriesOf(t, filepath.Join(w.history.dir, auditFile))
		if last := all[len(all)-1]; last.What != auditTracerEnd || last.Why != test.why {
			t.Errorf("%s: %+v", what, last)
		}
		w.history.close()
	}
}

// closing is a Writer with a Close.
type closing struct{ io.Writer }

func (closing) Close() error { return nil }

// A process that can't be traced is in the audit log as such, by name, and doesn't leave what it never was in.
func TestRefusedIsAudited(t *testing.T) {
	w, s := quietWatch(t)
	s.tracer = &tracerProcess{orders: closing{io.Discard}}
	s.take(w, &Feed{})
	members := []*collect.Process{process(1, 10, "shop", 9, 0), process(2, 10, "locked", 5, 0)}
	w.want(byMemory(members, time.Now().Add(-time.Hour)), "")
	s.order(w)
	s.take(w, &Feed{Refused: []int{2}, Watched: []int{1}})
	w.want(nil, "")
	s.order(w)
	var got []string
	for _, e := range entriesOf(t, filepath.Join(w.history.dir, auditFile)) {
		got = append(got, e.What+" "+e.Program)
	}
	if want := "[process_traced shop process_traced locked process_refused locked process_left shop]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}

// Those with most memory are traced first, and a process is new until it is known.
func TestMembers(t *testing.T) {
	now := time.Now()
	w := &watch{news: make(chan struct{}, 1)}
	small, large := process(1, 10, "small", 5, 0), process(2, 10, "large\x1b", 9, 0)
	w.want(byMemory([]*collect.Process{small, large}, now), "")
	if all := w.members(); len(all) != 2 || all[0].PID != 2 || all[0].program != "large?" || all[0].seen != now {
		t.Errorf("%+v", all)
	}
	again := process(1, 11, "small", 5, 0) // the PID is another's
	w.want(byMemory([]*collect.Process{again, large}, now.Add(time.Minute)), "")
	if all := w.members(); all[0].seen != now || all[1].seen != now.Add(time.Minute) {
		t.Errorf("%+v", all)
	}
}
