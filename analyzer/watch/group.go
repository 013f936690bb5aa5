package watch

import (
	"fmt"
	"slices"
	"strings"

	"github.com/memtrace/memtrace/analyzer/threshold"
	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/procfs/cgroup"
)

// groupFigures are the sizes of a control group that conditions may name, and
// what a share of each is of.
var groupFigures = map[string]struct {
	of    func(*cgroup.Group) cgroup.Value
	whole func(*cgroup.Group) cgroup.Value
}{
	"used":    {func(g *cgroup.Group) cgroup.Value { return g.Current }, hardLimit},
	"working": {(*cgroup.Group).WorkingSet, hardLimit},
	"swap":    {func(g *cgroup.Group) cgroup.Value { return g.SwapCurrent }, func(g *cgroup.Group) cgroup.Value { return g.SwapMax }},
}

func hardLimit(g *cgroup.Group) cgroup.Value { return g.Max }

// resolveGroup takes "used", "working", "swap", "oom_kills" and pressure of the
// control group at path.
func resolveGroup(c threshold.Condition, path string) (figure, error) {
	if !strings.HasPrefix(path, "/") {
		return nil, usageError("a control group's path begins with /, as in /proc/PID/cgroup: %q doesn't", path)
	}
	if name, ok := strings.CutPrefix(c.Metric, "psi."); ok {
		p, err := newPressure(c, name)
		if err != nil {
			return nil, err
		}
		return &groupPressure{p, path}, nil
	}
	if c.Metric == "oom_kills" {
		n, err := c.Value.Count()
		if err != nil {
			return nil, usageError("%v", err)
		}
		return &groupKills{path: path, limit: float64(n), before: -1}, nil
	}
	if _, ok := groupFigures[c.Metric]; !ok {
		return nil, usageError("of a control group there are used, working, swap, oom_kills, and pressure such as psi.some.avg10; not %s", c.Metric)
	}
	return sizeLimit(c, &groupFigure{c.Metric, path})
}

// groupFigure is a size of a control group.
type groupFigure struct{ metric, path string }

func (f *groupFigure) amount(src *source) (value, whole uint64, err error) {
	g, err := src.group(f.path)
	if err != nil {
		return 0, 0, err
	}
	figure := groupFigures[f.metric]
	v := figure.of(g)
	if !v.Outcome.Ok() {
		return 0, 0, unknownOf(f.path, f.metric, v.Outcome)
	}
	if w := figure.whole(g); w.Outcome.Ok() && !w.Unlimited {
		whole = w.Bytes
	}
	return v.Bytes, whole, nil
}

func unknownOf(path, what string, o procfs.Outcome) error {
	return fmt.Errorf("%s of control group %s: %v", what, path, o)
}

// groupPressure is an average of a control group's own pressure.
type groupPressure struct {
	*pressureFigure
	path string
}

func (p *groupPressure) read(src *source) (reading, error) {
	g, err := src.group(p.path)
	if err != nil {
		return reading{}, err
	}
	if !g.PressureOutcome.Ok() {
		return reading{}, unknownOf(p.path, "pressure", g.PressureOutcome)
	}
	return reading{p.of(&g.Pressure), p.percent, Percent}, nil
}

// groupKills is how many processes of a control group the OOM killer has taken
// since they were counted first.
type groupKills struct {
	path   string
	limit  float64
	before float64 // at first; -1: not counted yet
}

func (k *groupKills) read(src *source) (reading, error) {
	g, err := src.group(k.path)
	if err != nil {
		return reading{}, err
	}
	n, ok := g.Events.Get("oom_kill")
	if !g.EventsOutcome.Ok() || !ok {
		return reading{}, unknownOf(k.path, "oom_kills", max(g.EventsOutcome, procfs.NotSupported))
	}
	if k.before < 0 || float64(n) < k.before { // a group that was made anew counts from 0
		k.before = float64(n)
	}
	return reading{float64(n) - k.before, k.limit, Count}, nil
}

// group reads a control group once a check.
func (s *source) group(path string) (*cgroup.Group, error) {
	if s.groups == nil {
		h, err := cgroup.Open(s.opt.Cgroup)
		if err != nil {
			return nil, err
		}
		s.groups = h
	}
	if i := slices.IndexFunc(s.read, func(g *cgroup.Group) bool { return g.Path == path }); i >= 0 {
		return s.read[i], nil
	}
	g := new(cgroup.Group)
	if err := s.groups.Read(path, g); err != nil {
		return nil, err
	}
	s.read = append(s.read, g)
	return g, nil
}
