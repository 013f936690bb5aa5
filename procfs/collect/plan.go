package collect

import (
	"os"
	"slices"
	"time"

	"github.com/memtrace/memtrace/procfs"
)

var pageSize = uint64(os.Getpagesize())

// footprint are the counters that tell whether a process's memory may have
// changed: equal before and after, nothing was faulted in, mapped or unmapped,
// up to what the kernel's counters lag.
type footprint struct{ rss, shared, size, minor, major uint64 }

// walkState is what a Collector remembers about walks of one process.
type walkState struct {
	seen     footprint // now
	walked   footprint // at the last walk
	last     time.Time // of the last walk
	notUntil time.Time // the budget leaves the target alone until then
	perPage  float64   // ns, as measured with this very process; 0: not known
	predict  time.Duration
	took     time.Duration
	relative bool // a process that it shares pages with began or ended since
}

// plan chooses those to walk in this pass, in c.walks.
func (c *Collector) plan(at time.Time) {
	c.walks = c.walks[:0]
	c.pass.Walks = Walks{}
	for _, e := range c.order {
		if e.alive && e.fresh {
			c.addKin(e)
		}
	}
	for _, e := range c.order {
		if e.alive && e.wantsWalk {
			c.consider(e, at)
		}
	}
	clear(c.kin)
	c.spread(at)
}

// kin is what a process is to those that may share pages with it since a fork:
// a fork alone leaves its child the name.
type kin struct {
	parent int
	comm   string
}

// addKin notes that a process began or ended. Its parent, its siblings and its
// children of the same name may have shared pages with it since a fork, so that
// their PSS and USS change without a change of their own counters. Children of
// the first process and of kthreadd are no kin in this sense.
func (c *Collector) addKin(e *entry) {
	if e.p.PPID > 2 {
		c.kin[kin{e.p.PPID, e.p.Comm}] = true
	}
	c.kin[kin{e.p.PID, e.p.Comm}] = true
}

// hasKin reports whether one of the process's kin was noted.
func (c *Collector) hasKin(p *Process) bool {
	return len(c.kin) > 0 && (c.kin[kin{p.PID, p.Comm}] || c.kin[kin{p.PPID, p.Comm}])
}

// consider puts a process onto the list, or says why not.
func (c *Collector) consider(e *entry, at time.Time) {
	w, b := &e.walk, &c.opts.Budget
	first := w.last.IsZero()
	w.relative = w.relative || c.hasKin(&e.p)
	e.p.Behind = !first && (w.relative || w.seen != w.walked)
	w.predict = c.predict(e)
	switch {
	case b.MaxAge > 0 && !first && !e.p.Behind && at.Sub(w.last) < jittered(b.MaxAge, e.p.PID):
		c.pass.Walks.Unchanged++
	case b.maxHold() > 0 && w.predict > b.maxHold():
		c.pass.Walks.TooLong++
		e.deferred()
	case at.Before(w.notUntil):
		c.pass.Walks.Deferred++
		e.deferred()
	default:
		c.walks = append(c.walks, e)
	}
}

// jittered spreads the ends of one span over half of it, by PID.
func jittered(span time.Duration, pid int) time.Duration {
	return span - time.Duration(pid%32)*(span/64)
}

// deferred keeps the last figure; a process that never had one has none.
func (e *entry) deferred() {
	if e.walk.last.IsZero() {
		e.p.outcomes[Memory.index()] = procfs.Deferred
	}
}

// predict says how long the process's walk will take: by its own last one,
// if that was large enough to tell.
func (c *Collector) predict(e *entry) time.Duration {
	if e.walk.perPage > 0 {
		return fixedCost + time.Duration(e.walk.perPage*float64(e.p.RSS/pageSize))
	}
	return c.Meter.Predict(e.p.RSS)
}

// spread leaves for later passes what goes over the total, the oldest first.
// A walk is allowed as long as there is credit; what it takes beyond that is
// paid back by the next passes. The first pass is free.
func (c *Collector) spread(at time.Time) {
	total := c.opts.Budget.Total
	if total <= 0 {
		return
	}
	if c.creditAt.IsZero() {
		c.creditAt = at
		return
	}
	c.credit += time.Duration(float64(total) * at.Sub(c.creditAt).Seconds())
	c.credit = min(c.credit, total*maxCredit)
	c.creditAt = at
	slices.SortStableFunc(c.walks, func(a, b *entry) int { return a.walk.last.Compare(b.walk.last) })
	for i, e := range c.walks {
		if c.credit <= 0 {
			c.putOff(c.walks[i:])
			c.walks = c.walks[:i]
			return
		}
		c.credit -= e.walk.predict
	}
}

// maxCredit is how many seconds' worth of the total may be saved up.
const maxCredit = 5

func (c *Collector) putOff(rest []*entry) {
	for _, e := range rest {
		c.pass.Walks.Deferred++
		e.deferred()
	}
}

// walkOne walks a process that was chosen, and remembers what it cost.
func (c *Collector) walkOne(e *entry) {
	defer c.release(e)
	if !c.holdAgain(e) {
		e.alive = false
		return
	}
	began := c.now()
	e.readMemory()
	w := &e.walk
	w.took = c.now().Sub(began)
	w.last, w.notUntil = began, began.Add(c.opts.Budget.rest(w.took))
	w.walked, w.relative = w.seen, false
	e.p.MemoryAt, e.p.Behind = began, false
	c.Meter.Observe(e.p.RSS, w.took)
	if pages := e.p.RSS / pageSize; pages >= enoughPages && w.took > fixedCost {
		measured := float64(w.took-fixedCost) / float64(pages)
		if w.perPage > 0 { // an interrupted walk is no reason for a lasting high
			measured = min(measured, 1.5*w.perPage)
		}
		w.perPage = measured
	}
}

// sumWalks adds up what the walks of the pass came to.
func (c *Collector) sumWalks(at time.Time) {
	t := &c.pass.Walks
	for _, e := range c.walks {
		w := &e.walk
		t.Done++
		t.Held += w.took
		t.Predicted += w.predict
		if w.took > t.Longest {
			t.Longest, t.LongestOf = w.took, e.p.PID
		}
	}
	for _, p := range c.pass.Processes {
		if p.Outcome(Memory) == procfs.Known {
			t.Oldest = max(t.Oldest, at.Sub(p.MemoryAt))
		}
	}
}
