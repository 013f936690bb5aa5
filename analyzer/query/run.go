package query

import (
	"errors"
	"fmt"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/input"
	"github.com/memtrace/memtrace/tracer/event"
)

// Run answers a query about a trace. Errors are those of the source and of Options.Check.
func Run(src Source, q *Query, opt Options) (*Result, error) {
	if err := opt.Check(); err != nil {
		return nil, err
	}
	if src.Config.Seed == [2]uint64{} {
		src.Config.Seed = [2]uint64{1, 1} // sites have the same numbers each time
	}
	r := &runner{query: q, opt: opt, source: src, end: src.End}
	if opt.To != 0 {
		r.end = opt.To
	}
	if g := groupingOf(opt.By); g != nil {
		r.grouping = g
	}
	known := r.end != 0 || q.needs&needsEnd == 0
	if known && (q.site == nil && !q.mixed || q.site != nil && !q.mixed && opt.grouped()) {
		err := r.once()
		if !errors.Is(err, errNoRoom) {
			return r.result, err
		}
	}
	return r.twice()
}

var (
	errDone   = errors.New("the rest is not needed")
	errNoRoom = errors.New("too many groups of too many sites")
)

// A runner goes through a trace.
type runner struct {
	query    *Query
	opt      Options
	source   Source
	grouping *grouping
	end      uint64 // of the span, ns since the trace began; 0: not known yet

	analyzer *analyzer.Analyzer
	names    siteNames
	early    bool // names are known as blocks are judged
	over     bool // the span is
	last     uint64
	births   births
	subject  subject
	into     collector
	result   *Result
}

// A collector takes what fulfils the query.
type collector interface {
	add(*subject) error
	fill(*runner)
}

// once goes through the trace once: names are asked for at its end.
func (r *runner) once() error {
	r.analyzer = r.observing()
	defer r.analyzer.Close()
	r.names = siteNames{from: r.analyzer, memos: r.query.memos}
	r.into = r.newCollector(r.query.site != nil)
	if err := r.pass(); err != nil {
		return err
	}
	return r.conclude()
}

// twice goes through the trace for the names first.
func (r *runner) twice() (*Result, error) {
	first := analyzer.New(r.source.Config)
	defer first.Close()
	var last uint64
	err := r.source.Inputs(func(in input.Input) error {
		last = max(last, timeOf(in))
		first.Take(in)
		return nil
	})
	if err != nil {
		return nil, err
	}
	first.Close()
	if r.end == 0 {
		r.end = last - min(last, r.source.Config.Start)
	}
	r.names, r.early, r.over, r.last = siteNames{from: first, memos: r.query.memos}, true, false, 0
	r.births = births{}
	r.analyzer = r.observing()
	defer r.analyzer.Close()
	r.into = r.newCollector(false)
	if err := r.pass(); err != nil {
		return nil, err
	}
	return r.result, r.conclude()
}

func (r *runner) observing() *analyzer.Analyzer {
	c := r.source.Config
	c.Observer = r
	r.result = &Result{Schema: Schema, Expression: r.query.source, Notes: []string{}}
	r.births.wanted = (r.query.needs|r.grouping.or())&needsBirth != 0 || r.opt.Events || r.opt.By == None
	return analyzer.New(c)
}

// or is what the grouping needs; nil needs nothing.
func (g *grouping) or() needs {
	if g == nil {
		return 0
	}
	return g.needs
}

// pass goes through the trace.
func (r *runner) pass() error {
	err := r.source.Inputs(r.take)
	if err != nil && !errors.Is(err, errDone) {
		return err
	}
	return r.finish()
}

// take gives an input to the analyzer, and ends the span where it does.
func (r *runner) take(in input.Input) error {
	if r.over || r.opt.To == 0 {
		return r.give(in)
	}
	to := r.source.Config.Start + r.opt.To
	if v, ok := in.(*input.Events); ok {
		n := upTo(v.Events, to)
		if n < len(v.Events) {
			if err := r.give(&input.Events{Events: v.Events[:n]}); err != nil {
				return err
			}
			if err := r.finish(); err != nil {
				return err
			}
			in = &input.Events{Events: v.Events[n:]}
		}
	} else if timeOf(in) > to {
		if err := r.finish(); err != nil {
			return err
		}
	}
	if r.over && (r.early || !r.wantsNames()) {
		return errDone
	}
	return r.give(in)
}

// wantsNames reports whether anything that is asked or shown is of names.
func (r *runner) wantsNames() bool {
	return (r.query.needs|r.grouping.or())&needsNames != 0 || r.opt.Events || r.opt.By == None
}

func (r *runner) give(in input.Input) error {
	if !r.over {
		r.last = max(r.last, timeOf(in))
	}
	r.analyzer.Take(in)
	return r.result.err
}

// upTo is how many events there are until a time.
func upTo(events []event.Event, to uint64) int {
	n := len(events)
	for n > 0 && events[n-1].Time > to {
		n--
	}
	return n
}

// timeOf is when an input was made, 0 for those that don't say. Answers of names are of no time.
func timeOf(in input.Input) uint64 {
	switch v := in.(type) {
	case *input.Events:
		if n := len(v.Events); n > 0 {
			return v.Events[n-1].Time
		}
	case input.Instant:
		return v.Now
	case input.Window:
		return v.Now
	case input.Memory:
		return v.Now
	}
	return 0
}

// finish judges the blocks that live at the end of the span.
func (r *runner) finish() error {
	if r.over {
		return nil
	}
	r.over = true
	now := r.opt.To
	if now == 0 {
		now = r.last - min(r.last, r.source.Config.Start)
	}
	r.result.FromNS, r.result.ToNS = r.opt.From, now
	for l := range r.analyzer.Lives {
		r.subject = subject{life: l, live: true, now: now, end: r.end, birth: r.births.of(l)}
		if r.judge(); r.result.err != nil {
			return r.result.err
		}
	}
	return nil
}

// Born implements analyzer.Observer.
func (r *runner) Born(l *analyzer.Life) {
	if r.births.wanted && !r.over {
		r.births.born(l)
	}
}

// Ended implements analyzer.Observer.
func (r *runner) Ended(l *analyzer.Life) {
	if r.over || r.result.err != nil {
		return
	}
	s := &r.subject
	s.life, s.now, s.end = l, l.Ended, r.end
	if r.births.wanted {
		s.birth = r.births.ended(l)
	}
	if l.Ended > r.opt.From || r.opt.From == 0 {
		r.judge()
	}
}

// judge adds the subject to the answer if it fulfils the query.
func (r *runner) judge() {
	s, q := &r.subject, r.query
	if r.early && (q.site != nil || q.mixed) {
		s.site = r.names.of(s.life.Site)
		if !q.holdsOf(s) {
			return
		}
	}
	if q.block != nil && !q.block(s) {
		return
	}
	if err := r.into.add(s); err != nil {
		r.result.err = err
	}
}

// holdsOf reports whether the part on sites holds.
func (q *Query) holdsOf(s *subject) bool {
	if q.site == nil {
		return true
	}
	if s.site.judge == notAsked {
		s.site.judge = memoOf(q.site(s))
	}
	return s.site.judge == holds
}

// conclude makes the answer.
func (r *runner) conclude() error {
	r.into.fill(r)
	if n := r.births.unknown; n != 0 {
		r.result.Notes = append(r.result.Notes, fmt.Sprintf("%d blocks count as of no known thread, kind and realloc_chain: more than %d lived at once", n, maxBirths))
	}
	if r.result.Total.Estimate != nil {
		r.result.Notes = append(r.result.Notes, "Blocks were sampled: figures are estimates, and blocks that no sample met are in none; single blocks and events are those of the sample.")
	}
	return nil
}

// births are how the blocks that live began.
type births struct {
	wanted  bool
	at      map[birthKey]birth
	realloc uint16 // the chain of the block that a realloc has just ended
	unknown uint64
}

type birthKey struct {
	process int32
	pid     uint32
	addr    uint64
}

func keyOf(l *analyzer.Life) birthKey { return birthKey{int32(l.Process), l.PID, l.Addr} }

func (b *births) born(l *analyzer.Life) {
	if b.at == nil {
		b.at = make(map[birthKey]birth)
	}
	if len(b.at) >= maxBirths {
		b.unknown++
		return
	}
	own := birth{thread: l.TID, cause: l.Cause}
	if l.Cause == analyzer.ByRealloc && l.Old != 0 {
		own.chain = max(b.realloc, 1)
	}
	b.realloc = 0
	b.at[keyOf(l)] = own
}

func (b *births) ended(l *analyzer.Life) birth {
	own := b.at[keyOf(l)]
	delete(b.at, keyOf(l))
	b.realloc = 0
	if l.Cause == analyzer.ByRealloc {
		b.realloc = min(own.chain, maxChain-1) + 1
	}
	return own
}

func (b *births) of(l *analyzer.Life) birth {
	if !b.wanted {
		return birth{}
	}
	return b.at[keyOf(l)]
}
