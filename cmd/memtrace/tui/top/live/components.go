package live

import (
	"fmt"
	"slices"
	"time"

	"github.com/memtrace/memtrace/cmd/memtrace/tui/top"
	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/procfs/collect"
)

// components remembers which file or kind of memory holds what of each
// process. Reading smaps is dearer than the sums of smaps_rollup, so processes
// that have not changed are left out, and the others share a time per pass.
type components struct {
	budget    collect.Budget
	meter     collect.Meter
	processes map[collect.Identity]*holding
	last      time.Time // when the last pass began; zero: there was none
}

// holding is what one process's mappings came to when they were read last.
type holding struct {
	parts   map[componentKey]procfs.Memory
	at      time.Time // when they were read; zero: never
	next    time.Time // not before, so that its stalls stay within the budget
	seen    counters
	outcome procfs.Outcome
}

// counters tell whether a process's memory may have changed.
type counters struct{ rss, size, minor, major uint64 }

type componentKey struct {
	name string
	kind procfs.Kind
}

// maxParts bounds the components of one process, and maxComponents those of
// all. What is beyond goes to one called otherParts.
const (
	maxParts      = 20_000
	maxComponents = 100_000
	otherParts    = "[all others]"
)

// patience is how many seconds' worth of the budget one pass may use.
const patience = 5

func (s *Source) addComponents(out *top.Snapshot, pass *collect.Pass) {
	c := &s.parts
	due := c.due(pass, &out.Cost)
	allowed := time.Duration(-1) // the first pass reads everything
	if !c.last.IsZero() && c.budget.Total > 0 {
		allowed = time.Duration(float64(c.budget.Total) * min(pass.At.Sub(c.last).Seconds(), patience))
	}
	c.last = pass.At
	began := time.Now()
	for i, p := range due {
		if allowed >= 0 && time.Since(began) >= allowed {
			out.Cost.Deferred += len(due) - i
			break
		}
		out.Cost.Walked++
		out.Cost.LongestHold = max(out.Cost.LongestHold, c.read(s.fs, p))
	}
	c.sum(out, pass)
}

// due lists the processes to read, those read longest ago first, and forgets
// those that have ended.
func (c *components) due(pass *collect.Pass, cost *top.Cost) []*collect.Process {
	known := c.processes
	c.processes = make(map[collect.Identity]*holding, len(pass.Processes))
	var due []*collect.Process
	for _, p := range pass.Processes {
		if p.KernelThread || p.State == 'Z' || p.VSize == 0 {
			continue
		}
		h := known[p.Identity]
		if h == nil {
			h = &holding{outcome: procfs.NotRead}
		}
		c.processes[p.Identity] = h
		switch {
		case !h.at.IsZero() && h.seen == countersOf(p) && c.budget.MaxAge > 0 && pass.At.Sub(h.at) < c.budget.MaxAge:
			cost.Unchanged++
		case pass.At.Before(h.next), c.tooLong(p):
			cost.Deferred++
		default:
			due = append(due, p)
		}
	}
	slices.SortStableFunc(due, func(a, b *collect.Process) int {
		return c.processes[a.Identity].at.Compare(c.processes[b.Identity].at)
	})
	return due
}

// tooLong reports whether a walk would stall the target for longer than what
// collect.Budget allows at all.
func (c *components) tooLong(p *collect.Process) bool {
	longest := c.budget.MaxHold
	if longest == 0 {
		longest = 50 * c.budget.Stall
	}
	return longest > 0 && c.meter.Predict(p.RSS) > longest
}

func countersOf(p *collect.Process) counters {
	return counters{p.RSS, p.VSize, p.MinFlt, p.MajFlt}
}

// read reads one process's mappings and returns how long that took. Mappings
// that could be read once stay as they were where they cannot be read again.
func (c *components) read(fs procfs.FS, of *collect.Process) time.Duration {
	h := c.processes[of.Identity]
	began := time.Now()
	h.at, h.seen = began, countersOf(of)
	p, err := fs.Process(of.PID)
	if err != nil {
		h.outcome = procfs.OutcomeOf(err)
		return 0
	}
	defer p.Close()
	parts := make(map[componentKey]procfs.Memory)
	err = p.Smaps(func(v *procfs.VMA) { addPart(parts, v) })
	took := time.Since(began)
	c.meter.Observe(of.RSS, took)
	if c.budget.Stall > 0 {
		h.next = began.Add(time.Duration(float64(took) / float64(c.budget.Stall) * float64(time.Second)))
	}
	if h.outcome = procfs.OutcomeOf(err); err == nil {
		h.parts = parts
	}
	return took
}

func addPart(parts map[componentKey]procfs.Memory, v *procfs.VMA) {
	if v.Rss == 0 && v.Swap == 0 {
		return
	}
	key := componentOf(v)
	sum, ok := parts[key]
	if !ok && len(parts) >= maxParts {
		key = componentKey{otherParts, procfs.KindOther}
		sum = parts[key]
	}
	sum.Add(&v.Memory)
	parts[key] = sum
}

// componentOf names what a mapping belongs to: its file, or its kind.
func componentOf(v *procfs.VMA) componentKey {
	name := string(v.Path)
	if name == "" || v.Kind == procfs.KindStack || v.Kind == procfs.KindHeap {
		name = "[" + v.Kind.String() + "]"
	}
	return componentKey{name, v.Kind}
}

// sum adds the processes up.
func (c *components) sum(out *top.Snapshot, pass *collect.Pass) {
	type total struct {
		memory    procfs.Memory
		processes int
	}
	totals := make(map[componentKey]*total)
	refused, unread := 0, 0
	for _, h := range c.processes {
		switch {
		case h.outcome == procfs.NoPermission:
			refused++
		case h.parts == nil && h.outcome == procfs.NotRead:
			unread++
		case !h.at.IsZero():
			out.Cost.Oldest = max(out.Cost.Oldest, pass.At.Sub(h.at))
		}
		for key, m := range h.parts {
			t := totals[key]
			if t == nil && len(totals) >= maxComponents {
				key = componentKey{otherParts, procfs.KindOther}
				t = totals[key]
			}
			if t == nil {
				t = new(total)
				totals[key] = t
			}
			t.memory.Add(&m)
			t.processes++
		}
	}
	out.Components = make([]top.Component, 0, len(totals))
	for key, t := range totals {
		m := &t.memory
		out.Components = append(out.Components, top.Component{
			Name: key.name, Kind: key.kind.String(), Processes: t.processes,
			RSS: top.Of(m.Rss), PSS: top.Of(m.Pss), USS: top.Of(m.USS()), Swap: top.Of(m.Swap),
		})
	}
	if refused+unread > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("without %d processes that may not be read, and %d not read yet", refused, unread))
	}
}
