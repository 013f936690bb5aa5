package tracer

import "time"

// A Level is how much of the targets' allocations is seen.
type Level int

// Levels, from the dearest to the cheapest. Between Full and None each
// samples at an interval of its own. From None on the allocators have no probes: at None page faults have
// stacks, which tell who touches memory first, and at Paused nothing is seen.
const (
	Full Level = iota
	Sampled
	Sparse
	None
	Paused
)

// String returns the level's word in Reports.
func (l Level) String() string {
	switch l {
	case Full:
		return "full"
	case None:
		return "none"
	case Paused:
		return "paused"
	}
	return "sampled"
}

// A Budget decides at which level to trace so that the probes take no more
// than a share of the targets' own processor time. It only computes: its
// caller counts hits, reads clocks, and applies the level.
//
// It begins with a look, unless StartFull says otherwise: a moment at the sparsest level, whose
// hits say what each level would cost. The look leads to the finest one that keeps
// within the limit. So does each look that follows a pause. From there
//
//   - a burst leads down at once, to the finest level that it would keep within the limit at;
//   - a mean above the limit leads one level down;
//   - a finer level that would have kept below most of the limit for a while leads one level up.
//
// Where even Sparse is too dear it goes to None, if CanTouch, and from there to Paused if that is too dear, too. From
// both it comes back by a look: nothing else tells what the probes would cost.
type Budget struct {
	Limit     float64 // share of the targets' own time
	Floor     Level   // the finest level allowed
	Costs     Costs
	StartFull bool // begin at Floor: the targets are seen from their first instruction
	CanTouch  bool // there is a level None

	level   Level
	looking bool          // at Sparse, for a look
	since   time.Duration // when the level began
	pause   time.Duration // of the time without probes under way, at least
	fails   int           // looks in a row that led back to one
	started bool

	record float64 // ns of a recorded call beyond its hits
	touch  float64 // ns of a page fault's stack and record
	total  stretch // since the beginning
	owned  float64 // ns, of that: the targets' own time, as the limit is reckoned of
	debt   float64 // ns: cost beyond the limit that is not made up for yet

	burst stretch // since the cost was last within the limit
	part  stretch // since the last decision that is not about a burst
	look  stretch // the look under way

	fitsSince time.Duration // since when the finer level would keep within the limit; 0: it would not
	mean      float64       // of the overhead, over about a second; of parts
	parts     int           // that it is made of, in this level
}

// A stretch is what was seen in a part of the trace.
type stretch struct {
	took time.Duration
	hits Hits
	cost float64 // ns, of the hits
	own  float64 // ns, of the targets, without the cost; but for the total never less than idleOwn
}

func (s *stretch) add(o stretch) {
	s.took += o.took
	s.hits = s.hits.add(o.hits)
	s.cost += o.cost
	s.own += o.own
}

const (
	lookTime  = 50 * time.Millisecond  // of a look, where nothing happens that ends it before
	burstTime = 300 * time.Millisecond // what a burst may cost beyond the limit: that share of so long
	lookBurst = 100 * time.Millisecond // the same of a look

	partTime       = 250 * time.Millisecond // of a part
	minLevelTime   = 500 * time.Millisecond // after a change of level, before one that is not for a burst
	finerLevelTime = 3 * time.Second        // for which the finer level must have kept within the limit
	minPause       = 2 * time.Second        // without probes; doubled with each look that led back to it
	maxPause       = time.Minute
	budgetSmooth   = time.Second
	budgetMargin   = 0.7  // of the limit: below it, a finer level is worth a try
	idleOwn        = 0.02 // processors: targets that take less are reckoned as if they took this

	firstRecord   = 600    // ns, until it has been timed
	firstTouch    = 1500   // likewise
	recordedShare = 1. / 8 // of the calls at Sampled that are recorded, as long as nothing is known of their sizes
)

// Level is the one to trace at.
func (b *Budget) Level() Level {
	b.start(0)
	return b.level
}

// start begins the trace, if that has not begun.
func (b *Budget) start(now time.Duration) {
	if b.started {
		return
	}
	b.started, b.record, b.touch = true, firstRecord, firstTouch
	b.Restart(now)
}

// Restart begins the trace anew, as of now. Nothing has been observed yet.
func (b *Budget) Restart(now time.Duration) {
	b.start(now)
	b.Look(now)
	if b.StartFull {
		b.level, b.looking = b.Floor, false
	}
}

// Overhead is the share that the probes have taken of the targets' own time so far.
func (b *Budget) Overhead() float64 { return share(b.total.cost, b.total.own+b.total.cost) }

// LimitedShare is the same of targets that take next to nothing as if they took a small share of a processor: the
// limit is meant so.
func (b *Budget) LimitedShare() float64 { return share(b.total.cost, b.owned+b.total.cost) }

func share(cost, cpu float64) float64 {
	if cpu <= cost {
		if cost == 0 {
			return 0
		}
		return 100 // nearly all of it
	}
	return cost / (cpu - cost)
}

// Idle reports whether hits since the last Observe cost so little that no
// decision can depend on them, but those that come with time.
func (b *Budget) Idle(h Hits) bool {
	return !b.looking && b.burst.cost+b.costOf(h) < b.Limit*float64(burstTime)/4
}

// Due reports whether it is time for a look; see Look.
func (b *Budget) Due(now time.Duration) bool {
	b.start(now)
	age := now - b.since
	return b.level >= None && age >= b.pause && (b.debt <= 0 || age >= maxPause)
}

// Look begins a look. The probes are there, at Level, from now on.
func (b *Budget) Look(now time.Duration) {
	b.enter(max(Sparse, b.Floor), now)
	b.looking = true
}

// Observe takes in the hits and the targets' processor time (ns, what the
// kernel did on their behalf included) of a step that ends at now, a time since
// the trace began, and returns the level for the next one. Steps may be of any length: a burst is noticed
// at the end of a step.
func (b *Budget) Observe(now, step time.Duration, h Hits, cpu uint64) Level {
	b.start(now)
	b.timeRecords(h)
	cost := b.costOf(h)
	s := stretch{step, h, cost, float64(cpu) - cost}
	b.total.add(s)
	s.own = max(s.own, idleOwn*float64(step))
	b.owned += s.own
	b.debt = max(0, b.debt+cost-b.Limit*s.own)
	if b.level == None { // the last hits of probes that were on their way off tell nothing of it
		s.cost = float64(h.Touch) * b.touch
	}
	switch {
	case b.level == Paused:
	case b.looking:
		b.observeLook(now, s)
	case b.isBurst(s):
		b.enter(b.belowBurst(), now)
	default:
		b.observePart(now, s)
	}
	return b.level
}

// timeRecords takes in what recorded calls took by the clock. A thread that had to wait for its processor meanwhile makes a call
// look many times too dear; so one step doesn't count for much more than what was known.
func (b *Budget) timeRecords(h Hits) {
	timed(&b.record, h.TimedNS, h.Timed)
	timed(&b.touch, h.TouchNS, h.TouchTimed)
}

func timed(known *float64, ns, n uint64) {
	if n != 0 {
		*known += (min(float64(ns)/float64(n), 4**known) - *known) / 4
	}
}

// lowest is the level without probes.
func (b *Budget) lowest() Level {
	if b.CanTouch {
		return None
	}
	return Paused
}

// belowBurst is the level to go to from a burst.
func (b *Budget) belowBurst() Level {
	if b.level == None {
		return Paused
	}
	return b.finest(b.level+1, b.burst, b.Limit)
}

// isBurst takes in a step and reports whether the cost beyond the limit is more than a burst may have.
func (b *Budget) isBurst(s stretch) bool {
	b.burst.add(s)
	beyond := b.burst.cost - b.Limit*b.burst.own
	if beyond <= 0 {
		b.burst = stretch{}
	}
	return beyond > b.Limit*float64(burstTime)
}

// observeLook goes on with a look, or to the level that it leads to.
func (b *Budget) observeLook(now time.Duration, s stretch) {
	b.look.add(s)
	enough := b.look.cost-b.Limit*b.look.own > b.Limit*float64(lookBurst)
	if !enough && now-b.since < lookTime {
		return
	}
	to := b.finest(b.Floor, b.look, budgetMargin*b.Limit)
	if to >= None && b.look.cost <= b.Limit*b.look.own {
		to = b.level
	}
	if to == b.level {
		b.looking, b.fails = false, 0
		return
	}
	b.enter(to, now)
}

// observePart takes in a step and decides once there is enough for it.
func (b *Budget) observePart(now time.Duration, s stretch) {
	b.part.add(s)
	if b.part.took < partTime {
		return
	}
	part := b.part
	b.part = stretch{}
	is := part.cost / part.own
	b.parts++
	weight := max(min(1, float64(part.took)/float64(budgetSmooth)), 1/float64(b.parts))
	b.mean += (is - b.mean) * weight
	if now-b.since >= minLevelTime {
		b.decide(now, part)
	}
}

func (b *Budget) decide(now time.Duration, s stretch) {
	switch {
	case b.mean > b.Limit && b.level == Sparse:
		b.enter(b.lowest(), now)
	case b.mean > b.Limit:
		b.enter(b.level+1, now)
	case b.level > b.Floor && b.level < None && b.at(b.level-1, s) < budgetMargin*b.Limit:
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
	switch {
	case l == Paused && b.level == None: // which had a pause to keep to, too
	case l >= None && b.looking:
		b.pause = min(minPause<<b.fails, maxPause)
		b.fails = min(b.fails+1, 10)
	case l >= None:
		b.pause = minPause
	case b.looking:
		b.fails = 0
	}
	b.level, b.since, b.looking = l, now, false
	b.burst, b.part, b.look = stretch{}, stretch{}, stretch{}
	b.fitsSince, b.mean, b.parts = 0, 0, 0
}

func (b *Budget) costOf(h Hits) float64 {
	return float64(h.Entry)*b.Costs.Entry + float64(h.Return+h.Recorded)*b.Costs.Return + float64(h.Exit)*b.Costs.Exit +
		float64(h.Recorded+h.Predicted)*b.record + float64(h.Touch)*b.touch
}

// recordedCall is what a call that is recorded costs, by how many are predicted.
func (b *Budget) recordedCall(h Hits) float64 {
	probes := b.Costs.Return
	if n := h.Recorded + h.Predicted; n > 0 {
		probes = (float64(h.Recorded)*b.Costs.Return + float64(h.Predicted)*b.Costs.Entry) / float64(n)
	}
	return probes + b.record
}

// finest is the finest level from one on that would have kept within a limit; the lowest one where none would.
func (b *Budget) finest(from Level, s stretch, limit float64) Level {
	for l := from; l < None; l++ {
		if b.at(l, s) <= limit {
			return l
		}
	}
	return b.lowest()
}

// at is the share that a level would have taken, other than that at which a stretch was seen. Return instructions trap at
// every level.
func (b *Budget) at(l Level, s stretch) float64 {
	calls := float64(s.hits.Entry+s.hits.Return+s.hits.Recorded) / 2 // the others are frees
	if calls == 0 {
		return 0
	}
	recorded := min(calls, b.recordedAt(l, calls, s.hits))
	cost := calls*b.Costs.Entry + (calls-recorded)*b.Costs.Entry + recorded*b.recordedCall(s.hits)
	return (cost + float64(s.hits.Exit)*b.Costs.Exit) / s.own
}

// recordedAt estimates how many of some calls a level records. An interval of a sixteenth has eight times as many recorded:
// large blocks always are.
func (b *Budget) recordedAt(l Level, calls float64, h Hits) float64 {
	was := float64(h.Recorded + h.Predicted)
	switch {
	case l == Full:
		return calls
	case l == b.level:
		return was
	case b.level == Full && l == Sampled:
		return was * recordedShare
	case b.level == Full:
		return was * recordedShare / 8
	case l < b.level:
		return 8 * (was + 1)
	}
	return was / 8
}
