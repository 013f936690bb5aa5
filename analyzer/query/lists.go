package query

import (
	"cmp"
	"container/heap"
	"slices"
)

// A firstOf keeps the first ones of many in an order, and counts the others.
type firstOf[T any] struct {
	kept    []T // a heap with the last of them on top
	most    int
	before  func(x, y *T) bool
	omitted uint64
}

func (f *firstOf[T]) Len() int           { return len(f.kept) }
func (f *firstOf[T]) Less(i, j int) bool { return f.before(&f.kept[j], &f.kept[i]) }
func (f *firstOf[T]) Swap(i, j int)      { f.kept[i], f.kept[j] = f.kept[j], f.kept[i] }
func (f *firstOf[T]) Push(x any)         { f.kept = append(f.kept, x.(T)) }
func (f *firstOf[T]) Pop() any           { return nil } // nothing is taken out

func (f *firstOf[T]) add(x T) {
	if len(f.kept) < f.most {
		heap.Push(f, x)
		return
	}
	f.omitted++
	if f.before(&x, &f.kept[0]) {
		f.kept[0] = x
		heap.Fix(f, 0)
	}
}

func (f *firstOf[T]) sorted() []T {
	slices.SortFunc(f.kept, func(x, y T) int {
		switch {
		case f.before(&x, &y):
			return -1
		case f.before(&y, &x):
			return 1
		}
		return 0
	})
	return f.kept
}

// rowList collects single blocks.
type rowList struct {
	rows  firstOf[Row]
	total sums
}

func newRowList(o *Options) *rowList {
	key := orderOf(o.Order).row
	return &rowList{rows: firstOf[Row]{most: o.maxRows(), before: func(x, y *Row) bool {
		return cmp.Or(cmp.Compare(key(y), key(x)), cmp.Compare(x.BornNS, y.BornNS), cmp.Compare(x.PID, y.PID), cmp.Compare(x.Addr, y.Addr)) < 0
	}}}
}

func (c *rowList) add(s *subject) error {
	c.total.add(s)
	l := s.life
	row := Row{
		Addr: l.Addr, Size: l.Size, BornNS: l.Born, LifetimeNS: s.lifetime(), PID: l.PID, Thread: s.birth.thread, FreeThread: s.freeThread(),
		Kind: s.birth.cause.String(), Reallocs: s.birth.chain, Temporary: l.Temporary, Leak: l.Leaked, Site: l.Site,
	}
	if !s.live {
		row.EndedNS, row.EndedBy = l.Ended, l.Cause.String()
	}
	c.rows.add(row)
	return nil
}

func (c *rowList) fill(r *runner) {
	res := r.result
	res.By, res.Order, res.Total = None, orderOf(r.opt.Order).word, c.total.figures()
	res.Blocks, res.Omitted = c.rows.sorted(), c.rows.omitted
	for i := range res.Blocks {
		b := &res.Blocks[i]
		s := r.names.of(b.Site)
		b.Function, b.File, b.Line = s.function, s.file, s.line
	}
}

// eventList collects births and ends.
type eventList struct {
	events firstOf[Event]
	total  sums
	from   uint64
}

func newEventList(o *Options) *eventList {
	return &eventList{from: o.From, events: firstOf[Event]{most: o.maxRows(), before: func(x, y *Event) bool {
		return cmp.Or(cmp.Compare(x.TimeNS, y.TimeNS), compareBool(y.End, x.End), cmp.Compare(x.PID, y.PID), cmp.Compare(x.Addr, y.Addr)) < 0
	}}}
}

func compareBool(x, y bool) int {
	switch {
	case x == y:
		return 0
	case x:
		return 1
	}
	return -1
}

func (c *eventList) add(s *subject) error {
	c.total.add(s)
	l := s.life
	e := Event{TimeNS: l.Since, Event: s.birth.cause.String(), Addr: l.Addr, Size: l.Size, PID: l.PID, Thread: s.birth.thread, Site: l.Site}
	if l.Since >= c.from {
		c.events.add(e)
	}
	if !s.live {
		e.TimeNS, e.Event, e.End, e.Thread = l.Ended, l.Cause.String(), true, s.freeThread()
		c.events.add(e)
	}
	return nil
}

func (c *eventList) fill(r *runner) {
	res := r.result
	res.Total, res.Events, res.Omitted = c.total.figures(), c.events.sorted(), c.events.omitted
	for i := range res.Events {
		res.Events[i].Function = r.names.of(res.Events[i].Site).function
	}
}
