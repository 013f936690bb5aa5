package query

import (
	"errors"
	"fmt"
	"math"

	"github.com/memtrace/memtrace/analyzer"
)

// Run answers a query about a trace. Errors are those of the source and of Options.Check.
func Run(src Source, q *Query, opt Options) (*Result, error) {
	r, err := newRunner(src, q, opt)
	if err != nil {
		return nil, err
	}
	return r.run()
}

func newRunner(src Source, q *Query, opt Options) (*runner, error) {
	if err := opt.Check(); err != nil {
		return nil, err
	}
	if src.Config.Seed == [2]uint64{} {
		src.Config.Seed = [2]uint64{1, 1} // sites have the same numbers each time
	}
	r := &runner{query: q, opt: opt, source: src, end: src.End, room: maxGroups}
	if opt.To != 0 {
		r.end = opt.To
	}
	r.grouping = groupingOf(opt.By)
	return r, nil
}

// run goes through the trace once if it can.
func (r *runner) run() (*Result, error) {
	if q := r.query; !q.mixed && (q.site == nil || r.opt.grouped()) {
		err := r.once()
		if !errors.Is(err, errNoRoom) {
			return r.result, err
		}
	}
	return r.twice()
}

var errNoRoom = errors.New("too many groups of too many sites")

// A runner goes through a trace.
type runner struct {
	query    *Query
	opt      Options
	source   Source
	grouping *grouping
	span     *spanGroups // what is asked for; nil: a Result
	room     int         // for groups
	end      uint64      // of the span, ns since the trace began

	analyzer *analyzer.Analyzer
	names    siteNames
	early    bool // names are known as blocks are judged
	births   births
	err      error // of the collector
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
	r.conclude()
	return nil
}

// twice goes through the trace for the names first.
func (r *runner) twice() (*Result, error) {
	first := analyzer.New(r.source.Config)
	defer first.Close()
	if _, err := r.play(first, math.MaxUint64); err != nil {
		return nil, err
	}
	first.Close() // but for the names
	r.names, r.early = siteNames{from: first, memos: r.query.memos}, true
	r.analyzer = r.observing()
	defer r.analyzer.Close()
	r.into = r.newCollector(false)
	if err := r.pass(); err != nil {
		return nil, err
	}
	r.conclude()
	return r.result, nil
}

// play gives the trace until the end of the span; from is as Source.Play has it.
func (r *runner) play(a *analyzer.Analyzer, from uint64) ([]string, error) {
	until := uint64(math.MaxUint64)
	if r.opt.To != 0 {
		until = r.source.Config.Start + r.opt.To
	}
	return r.source.Play(a, min(from, until), until)
}

// from is since when the lives of blocks are to be known.
func (r *runner) from() uint64 {
	if r.births.wanted || r.opt.From == 0 {
		return 0
	}
	return r.source.Config.Start + r.opt.From
}

func (r *runner) observing() *analyzer.Analyzer {
	c := r.source.Config
	c.Observer = r
	r.births, r.err = births{}, nil
	r.result = &Result{Schema: Schema, Expression: r.query.source, Notes: []string{}, FromNS: r.opt.From, ToNS: r.end}
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

// pass goes through the trace, and then judges the blocks that live at the end of the span.
func (r *runner) pass() error {
	notes, err := r.play(r.analyzer, r.from())
	if err = errors.Join(err, r.err); err != nil {
		return err
	}
	r.result.Notes = append(r.result.Notes, notes...)
	for l := range r.analyzer.Lives {
		r.subject = subject{life: l, live: true, now: r.end, from: r.opt.From, end: r.end, birth: r.births.of(l)}
		if r.judge(); r.err != nil {
			return r.err
		}
	}
	return nil
}

// Born implements analyzer.Observer.
func (r *runner) Born(l *analyzer.Life) {
	if r.births.wanted {
		r.births.born(l)
	}
}

// Ended implements analyzer.Observer.
func (r *runner) Ended(l *analyzer.Life) {
	if r.err != nil {
		return
	}
	s := &r.subject
	s.life, s.now, s.from, s.end = l, l.Ended, r.opt.From, r.end
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
		r.err = err
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
func (r *runner) conclude() {
	r.into.fill(r)
	if r.asksLeaks() && r.analyzer.LeakChecks() == 0 {
		r.result.Notes = append(r.result.Notes, r.noCheck())
	}
	if n := r.births.unknown; n != 0 {
		r.result.Notes = append(r.result.Notes, fmt.Sprintf("%d blocks count as of no known thread, kind and realloc_chain: more than %d lived at once", n, maxBirths))
	}
	const sampled = "Blocks were sampled: figures are estimates, and blocks that no sample met are in none"
	switch {
	case r.span != nil && r.span.sampled:
		r.result.Notes = append(r.result.Notes, sampled+".")
	case r.result.Total.Estimate != nil:
		r.result.Notes = append(r.result.Notes, sampled+"; single blocks and events are those of the sample.")
	}
}

// asksLeaks reports whether the answer depends on what a leak check has found.
func (r *runner) asksLeaks() bool {
	return r.query.needs&needsCheck != 0 || r.opt.By == "leak" || r.opt.Order == "leaked"
}

// noCheck says that no block is known to be leaked or not, and how to know.
func (r *runner) noCheck() string {
	before := ""
	if r.end < r.source.End {
		before = " until " + humanTime(r.end) + " (a check comes at the end of a trace)"
	}
	return "Nobody looked for leaks" + before + ": which blocks are leaked is not known. Record with --leaks to know."
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
