package collect

import (
	"cmp"
	"os"
	"runtime"
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
	mappings int       // as counted; 0: they were not
	factor   float64   // of what a Meter predicts, as measured with this very process; 0: not known
	predict  time.Duration
	took     time.Duration
	relative bool // a process that it shares pages with began or ended since
	chosen   bool // for this pass
}

// moved is by how many bytes RSS has changed since the last walk; of a process without one, all of it.
func (w *walkState) moved() uint64 {
	return max(w.seen.rss, w.walked.rss) - min(w.seen.rss, w.walked.rss)
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
	w.chosen = false
	if w.predict = c.predict(e, at); first && w.mappings == 0 && c.mayBeTooLong(e) {
		w.count(e)
		w.predict = c.predict(e, at)
	}
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

// predict says how long the process's walk will take: as long as a Meter says,
// or in the same proportion to that as its own last one. That one is forgotten
// in time, lest it should be the last for good.
func (c *Collector) predict(e *entry, at time.Time) time.Duration {
	d := c.Meter.Predict(e.p.RSS, e.walk.mappings)
	if e.walk.factor > 0 && at.Sub(e.walk.last) < 5*time.Minute {
		d = time.Duration(float64(d) * e.walk.factor)
	}
	return d
}

// mayBeTooLong reports whether a process may have so many mappings that its
// walk is not allowed. To count them takes as long as to walk them, though not
// at one go.
func (c *Collector) mayBeTooLong(e *entry) bool {
	limit := c.opts.Budget.maxHold()
	most := min(e.p.VSize/pageSize, uint64(c.maxMappings))
	return limit > 0 && e.walk.predict <= limit && c.Meter.Predict(e.p.RSS, int(most)) > limit
}

// count counts the process's mappings; where that is not to be, they are 0.
func (w *walkState) count(e *entry) {
	if e.dir != nil {
		w.mappings, _ = e.dir.CountMaps()
	}
}

// spread leaves for later passes what goes over the total. By turns it takes the process whose RSS has moved
// most, and the one whose last walk is the longest ago: a figure that is far off is mended soon, and none waits for ever.
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
	c.byAge = append(c.byAge[:0], c.walks...)
	slices.SortStableFunc(c.byAge, func(a, b *entry) int { return a.walk.last.Compare(b.walk.last) })
	c.byMove = append(c.byMove[:0], c.byAge...)
	slices.SortStableFunc(c.byMove, func(a, b *entry) int { return cmp.Compare(b.walk.moved(), a.walk.moved()) })
	c.walks = c.walks[:0]
	age, move := c.byAge, c.byMove
	for len(c.walks) < len(c.byAge) && c.credit > 0 {
		next := &move
		if c.oldestNext {
			next = &age
		}
		e := (*next)[0]
		if *next = (*next)[1:]; e.walk.chosen {
			continue
		}
		e.walk.chosen, c.oldestNext = true, !c.oldestNext
		c.walks = append(c.walks, e)
		c.credit -= e.walk.predict
	}
	c.putOff(c.byAge)
}

// maxCredit is how many seconds' worth of the total may be saved up.
const maxCredit = 5

// putOff leaves those that were not chosen for later passes.
func (c *Collector) putOff(waiting []*entry) {
	for _, e := range waiting {
		if !e.walk.chosen {
			c.pass.Walks.Deferred++
			e.deferred()
		}
	}
}

// walkOne walks a process that was chosen, and remembers what it cost.
func (c *Collector) walkOne(e *entry) {
	defer c.release(e)
	if !c.holdAgain(e) {
		e.alive = false
		return
	}
	began, w := c.now(), &e.walk
	used := c.readTimed(e)
	w.took = c.now().Sub(began)
	w.last, w.notUntil = began, began.Add(c.opts.Budget.rest(w.took))
	w.walked, w.relative = w.seen, false
	e.p.MemoryAt, e.p.Behind = began, false
	if used > 0 {
		c.learn(e, used)
	} else {
		c.Meter.Observe(e.p.RSS, w.took)
	}
}

// readTimed walks the process's page tables and returns the processor time that
// it took, or 0 where nothing is bounded: then none is to be spent on the clock.
func (c *Collector) readTimed(e *entry) time.Duration {
	if !c.opts.Budget.bounds() {
		e.readMemory()
		return 0
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := c.cpu()
	e.readMemory()
	return c.cpu() - before
}

// enoughTime is what a walk must be predicted or have taken for its time to
// tell anything.
const enoughTime = fixedCost + enoughPages*firstPageCost

// learn remembers what a walk took of the processor: that others had it
// meanwhile is no reason to predict more.
func (c *Collector) learn(e *entry, took time.Duration) {
	predicted := c.Meter.Predict(e.p.RSS, e.walk.mappings)
	if e.p.Outcome(Memory) != procfs.Known || max(took, predicted) < enoughTime {
		return
	}
	if took > maxFactor*predicted { // as where there are many mappings
		e.walk.count(e)
		predicted = c.Meter.Predict(e.p.RSS, e.walk.mappings)
	}
	e.walk.factor = min(float64(took)/float64(predicted), maxFactor)
	c.Meter.Observe(e.p.RSS, took)
}

// maxFactor is how far one walk may mislead the prediction of the next.
const maxFactor = 4

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
