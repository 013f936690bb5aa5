//go:build linux && !viewer

package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/memtrace/memtrace/analyzer/gate"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/analyzer/threshold"
	"github.com/memtrace/memtrace/analyzer/watch"
)

// freezeConditions are those of --freeze-on: of the traced processes, as --fail-on takes them, and of the machine, its
// groups and processes, as snapshot --watch does.
type freezeConditions struct {
	rules   gate.Rules
	watched []threshold.Condition
}

// readFreezeConditions reads a list that is separated by commas; "" has none.
func readFreezeConditions(text string) (f freezeConditions, err error) {
	if text == "" {
		return f, nil
	}
	all, err := threshold.ParseList(text)
	if err != nil {
		return f, usageError("--freeze-on: %v", err)
	}
	for _, c := range all {
		if !slices.Contains(gate.Figures(), c.Metric) || c.Metric == "swap" && c.Subject == "" {
			f.watched = append(f.watched, c)
			continue
		}
		rules, err := gate.ParseRules([]string{c.String()})
		if err != nil {
			return f, usageError("--freeze-on: %v", err)
		}
		if rules.NeedLeaks() {
			return f, usageError("--freeze-on %s: leaks are looked for at the end of a trace alone; growth, heap and rss are known before", c)
		}
		f.rules = append(f.rules, rules...)
	}
	return f, nil
}

// A freezeWatch looks whether a condition is met.
type freezeWatch struct {
	judge *gate.Judge
	rules int
	met   []string // of the judge's
	watch *watch.Watch
	kills *watch.Watch // of the processes' control groups; nil: not looked for yet, or there is none to be read
	asked bool
}

// freezeMargin is by which part of its limit a figure has to be back before it freezes again.
const freezeMargin = 0.05

// freezeStall is for how long of each second a process may wait for its memory to be read.
const freezeStall = 2 * time.Millisecond

func newFreezeWatch(f freezeConditions, warmUp time.Duration) (*freezeWatch, error) {
	x := &freezeWatch{rules: len(f.rules), judge: gate.New(gate.Options{Rules: f.rules, WarmUp: warmUp})}
	if len(f.watched) == 0 {
		return x, nil
	}
	var err error
	x.watch, err = watch.New(f.watched, watch.Options{Hysteresis: freezeMargin, StallBudget: freezeStall})
	var usage *watch.UsageError
	if errors.As(err, &usage) {
		return nil, usageError("--freeze-on: %v", err)
	}
	if err != nil {
		return nil, fmt.Errorf("--freeze-on: %w", err)
	}
	return x, nil
}

// observe returns which rules a Report has just met.
func (x *freezeWatch) observe(r *report.Report) (why []string) {
	x.judge.Observe(r)
	met := x.judge.Met()
	x.met = slices.DeleteFunc(x.met, func(rule string) bool { // such as growth that has stopped
		return !slices.ContainsFunc(met, func(m gate.Met) bool { return m.Rule == rule })
	})
	for _, m := range met {
		if !slices.Contains(x.met, m.Rule) {
			x.met = append(x.met, m.Rule)
			why = append(why, fmt.Sprintf("--freeze-on %s was met: %s", m.Rule, m.Figure))
		}
	}
	return why
}

// check returns which conditions have just been crossed.
func (x *freezeWatch) check() (why []string) {
	if x.watch == nil {
		return nil
	}
	for _, e := range x.watch.Check(time.Now()) {
		if e.Crossing {
			why = append(why, "--freeze-on "+e.Condition+" was met")
		}
	}
	return why
}

// outOfMemory returns in which groups processes were killed for want of memory since it was asked before. groups are
// those of the traced processes.
func (x *freezeWatch) outOfMemory(groups func() []string) (why []string) {
	if !x.asked {
		x.asked = true
		x.kills = watchKills(groups())
	}
	if x.kills == nil {
		return nil
	}
	for _, e := range x.kills.Check(time.Now()) {
		if e.Crossing {
			why = append(why, "the kernel killed a process for want of memory: "+e.Condition)
		}
	}
	return why
}

// watchKills watches the groups that can be; nil: none.
func watchKills(groups []string) *watch.Watch {
	var conditions []threshold.Condition
	for _, group := range groups {
		if c, err := threshold.Parse(fmt.Sprintf("oom_kills(cgroup:%s)>0", group)); err == nil && group != "/" {
			conditions = append(conditions, c)
		}
	}
	if len(conditions) == 0 {
		return nil
	}
	w, err := watch.New(conditions, watch.Options{})
	if err != nil {
		return nil
	}
	w.Check(time.Now()) // what was before does not count
	return w
}

func (x *freezeWatch) close() {
	for _, w := range []*watch.Watch{x.watch, x.kills} {
		if w != nil {
			_ = w.Close()
		}
	}
}
