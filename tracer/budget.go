package tracer

import "time"

// A Level is how much of the targets' allocations is seen.
type Level int

// Levels, from the dearest to the cheapest. Between Full and Paused each
// samples at an interval of its own.
const (
	Full Level = iota
	Sampled
	Sparse
	Paused
)

// String returns the level's word in Reports.
func (l Level) String() string {
	switch l {
	case Full:
		return "full"
	case Paused:
		return "paused"
	}
	return "sampled"
}

// A Budget decides at which level to trace so that the probes take no more
// than a share of the targets' own processor time. It only computes: its
// caller counts hits, reads clocks, and applies the level.
//
// It goes down a level as soon as a second's mean is above the limit, and up
// again only once the finer level would have stayed below most of it for a
// while. What a paused trace would cost is not known: it looks for a moment at
// the sparsest level, after a pause that makes up for it.
type Budget struct {
	Limit float64 // share of the targets' own time
	Floor Level   // the finest level allowed
	Costs Costs

	level      Level
	since      time.Duration // when the level began
	fitsSince  time.Duration // since when the finer level would keep within the limit; 0: it would not
	pause      time.Duration // of the pause under way
	mean       float64       // of the overhead, over about a second
	record     float64       // ns of a recorded call beyond its hits
	cost       float64       // ns since the beginning
	cpu        float64       // of the targets, cost included
	unobserved bool          // nothing has been observed at this level yet
	started    bool
}

const (
	minLevelTime   = 500 * time.Millisecond // after a change of level, before the next one
	finerLevelTime = 3 * time.Second        // for which the finer level must have kept within the limit
	sampleTime     = 500 * time.Millisecond // of a look at the sparsest level after a pause
	minPause       = 2 * time.Second
	maxPause       = time.Minute
	budgetSmooth   = time.Second
	budgetMargin   = 0.7 // of the limit: below it, a finer level is worth a try

	firstRecord = 600 // ns, until it has been timed
)

// Level is the one to trace at.
func (b *Budget) Level() Level { return max(b.level, b.Floor) }

// Overhead is the share that the probes have taken of the targets' own time so far.
func (b *Budget) Overhead() float64 { return share(b.cost, b.cpu) }

func share(cost, cpu float64) float64 {
	if cpu <= cost {
		if cost == 0 {
			return 0
		}
		return 100 // nearly all of it
	}
	return cost / (cpu - cost)
}

// Observe takes in the hits and the targets' processor time (ns, what the
// kernel did on their behalf included) of a step that ends at now, a time since
// the trace began, and returns the level for the next one.
func (b *Budget) Observe(now, step time.Duration, h Hits, cpu uint64) Level {
	if !b.started {
		b.started, b.level, b.since, b.record = true, b.Floor, now, firstRecord
	}
	if h.Timed > 0 {
		b.record += (float64(h.TimedNS)/float64(h.Timed) - b.record) / 4
	}
	cost := b.costOf(h)
	b.cost, b.cpu = b.cost+cost, b.cpu+float64(cpu)
	now0 := share(cost, float64(cpu))
	weight := min(1, float64(step)/float64(budgetSmooth))
	if b.unobserved {
		b.mean, b.unobserved = now0, false
	} else {
		b.mean += (now0 - b.mean) * weight
	}
	b.decide(now, h, float64(cpu)-cost)
	return b.level
}

func (b *Budget) costOf(h Hits) float64 {
	return float64(h.Entry)*b.Costs.Entry + float64(h.Return+h.Recorded)*b.Costs.Return + float64(h.Exit)*b.Costs.Exit + float64(h.Recorded+h.Predicted)*b.record
}

// recordedCall is what a call that is recorded costs, by how many are predicted.
func (b *Budget) recordedCall(h Hits) float64 {
	probes := b.Costs.Return
	if n := h.Recorded + h.Predicted; n > 0 {
		probes = (float64(h.Recorded)*b.Costs.Return + float64(h.Predicted)*b.Costs.Entry) / float64(n)
	}
	return probes + b.record
}

func (b *Budget) decide(now time.Duration, h Hits, own float64) {
	age := now - b.since
	switch {
	case b.level == Paused:
		if age >= b.pause {
			b.enter(max(Sparse, b.Floor), now)
		}
	case age < minLevelTime:
	case b.mean > b.Limit:
		if b.level+1 == Paused {
			b.pause = min(max(time.Duration(float64(sampleTime)*b.mean/b.Limit), minPause), maxPause)
		}
		b.enter(b.level+1, now)
	case b.level > b.Floor && b.finer(h, own) < budgetMargin*b.Limit:
		if b.fitsSince == 0 {
			b.fitsSince = now
		}
		if now-b.fitsSince >= finerLevelTime {
			b.enter(b.level-1, now)
		}
	default:
		b.fitsSince = 0
	}
}

func (b *Budget) enter(l Level, now time.Duration) {
	b.level, b.since, b.fitsSince, b.unobserved = l, now, 0, true
}

// finer is the share that the next finer level would have taken: if that is
// Full, by recording every call; else eight times as many as now. Return instructions trap at every level.
func (b *Budget) finer(h Hits, own float64) float64 {
	calls := float64(h.Entry+h.Return+h.Recorded) / 2 // the others are frees
	recorded := min(calls, 8*float64(h.Recorded+h.Predicted+1))
	if b.level-1 == Full {
		recorded = calls
	}
	cost := calls*b.Costs.Entry + (calls-recorded)*b.Costs.Entry + recorded*b.recordedCall(h)
	return (cost + float64(h.Exit)*b.Costs.Exit) / max(own, 1)
}
