package agent

import (
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
		cpu         []time.Duration // of each interval
		faults      uint64          // of each
		why         string
		pause       time.Duration
	}{
		"well":                     {age: time.Hour, recorded: 10, cpu: []time.Duration{time.Second, time.Second}},
		"long":                     {age: 25 * time.Hour, cpu: []time.Duration{0}, why: "the recording is long enough"},
		"large":                    {age: time.Hour, recorded: 100, cpu: []time.Duration{0}, why: "the recording is large enough"},
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
			s.judge(&Feed{Recorded: test.recorded}, cpu, test.faults, span)
		}
		if s.why != test.why || s.pause != test.pause {
			t.Errorf("%s: %q, pause %v; want %q, %v", what, s.why, s.pause, test.why, test.pause)
		}
	}
}

// Those with most memory are traced first, and a process is new until it is known.
func TestMembers(t *testing.T) {
	now := time.Now()
	w := &watch{news: make(chan struct{}, 1)}
	small, large := process(1, 10, "small", 5, 0), process(2, 10, "large\x1b", 9, 0)
	w.want(byMemory([]*collect.Process{small, large}, now))
	if all := w.members(); len(all) != 2 || all[0].PID != 2 || all[0].program != "large?" || all[0].seen != now {
		t.Errorf("%+v", all)
	}
	again := process(1, 11, "small", 5, 0) // the PID is another's
	w.want(byMemory([]*collect.Process{again, large}, now.Add(time.Minute)))
	if all := w.members(); all[0].seen != now || all[1].seen != now.Add(time.Minute) {
		t.Errorf("%+v", all)
	}
}
