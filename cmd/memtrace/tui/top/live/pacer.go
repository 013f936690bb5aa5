package live

import (
	"slices"
	"time"

	"github.com/memtrace/memtrace/cmd/memtrace/tui/top"
	"github.com/memtrace/memtrace/procfs"
	"github.com/memtrace/memtrace/procfs/collect"
)

// pacer reads a file of each process that walks its page tables, such as smaps
// and numa_maps, within the budget of collect.Budget: processes that have not
// changed are left out, each is left alone for as long as its last walk
// deserves, and all share a time per pass. What was read last is kept.
type pacer[T any] struct {
	budget    collect.Budget
	meter     collect.Meter
	processes map[collect.Identity]*holding[T]
	last      time.Time // when the last pass began; zero: there was none
}

// holding is what was read of one process.
type holding[T any] struct {
	value   T
	known   bool      // value is there, though it may be old
	at      time.Time // when it was tried last; zero: never
	next    time.Time // not before
	seen    counters
	outcome procfs.Outcome
}

// counters tell whether a process's memory may have changed.
type counters struct{ rss, size, minor, major uint64 }

func countersOf(p *collect.Process) counters {
	return counters{p.RSS, p.VSize, p.MinFlt, p.MajFlt}
}

// patience is how many seconds' worth of the budget one pass may use.
const patience = 5

// pass reads what is due, what was read longest ago first, as long as the
// budget lasts. The first pass reads everything that no walk is too long for.
func (c *pacer[T]) pass(fs procfs.FS, pass *collect.Pass, cost *top.Cost, read func(*procfs.Process) (T, error)) {
	due := c.due(pass, cost)
	allowed := time.Duration(-1)
	if !c.last.IsZero() && c.budget.Total > 0 {
		allowed = time.Duration(float64(c.budget.Total) * min(pass.At.Sub(c.last).Seconds(), patience))
	}
	c.last = pass.At
	began := time.Now()
	for i, p := range due {
		if allowed >= 0 && time.Since(began) >= allowed {
			cost.Deferred += len(due) - i
			break
		}
		cost.Walked++
		cost.LongestHold = max(cost.LongestHold, c.read(fs, p, read))
	}
	for _, h := range c.processes {
		if h.known {
			cost.Oldest = max(cost.Oldest, pass.At.Sub(h.at))
		}
	}
}

// due lists the processes to read, and forgets those that have ended.
func (c *pacer[T]) due(pass *collect.Pass, cost *top.Cost) []*collect.Process {
	before := c.processes
	c.processes = make(map[collect.Identity]*holding[T], len(pass.Processes))
	var due []*collect.Process
	for _, p := range pass.Processes {
		if p.KernelThread || p.State == 'Z' || p.VSize == 0 {
			continue
		}
		h := before[p.Identity]
		if h == nil {
			h = &holding[T]{outcome: procfs.NotRead}
		}
		c.processes[p.Identity] = h
		switch {
		case c.unchanged(h, p, pass.At):
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

func (c *pacer[T]) unchanged(h *holding[T], p *collect.Process, at time.Time) bool {
	return !h.at.IsZero() && h.seen == countersOf(p) && c.budget.MaxAge > 0 && at.Sub(h.at) < c.budget.MaxAge
}

// tooLong reports whether a walk would stall the target for longer than what
// collect.Budget allows at all. Mappings are left out of that: between a few of
// them the kernel lets go of the target, and what they take counts afterwards.
func (c *pacer[T]) tooLong(p *collect.Process) bool {
	longest := c.budget.MaxHold
	if longest == 0 {
		longest = 50 * c.budget.Stall
	}
	return longest > 0 && c.meter.Predict(p.RSS, 0) > longest
}

// read reads one process and returns how long that took. What could be read
// once is kept where it cannot be read again.
func (c *pacer[T]) read(fs procfs.FS, of *collect.Process, read func(*procfs.Process) (T, error)) time.Duration {
	h := c.processes[of.Identity]
	began := time.Now()
	h.at, h.seen = began, countersOf(of)
	p, err := fs.Process(of.PID)
	if err != nil {
		h.outcome = procfs.OutcomeOf(err)
		return 0
	}
	defer p.Close()
	value, err := read(p)
	took := time.Since(began)
	c.meter.Observe(of.RSS, took)
	if c.budget.Stall > 0 {
		h.next = began.Add(time.Duration(float64(took) / float64(c.budget.Stall) * float64(time.Second)))
	}
	if h.outcome = procfs.OutcomeOf(err); err == nil {
		h.value, h.known = value, true
	}
	return took
}
