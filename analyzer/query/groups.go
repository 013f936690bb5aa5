package query

import (
	"cmp"
	"slices"
)

// A sum is what the blocks of a group are added up in; F is the figures that it comes to.
type sum[T, F any] interface {
	*T
	add(*subject)
	merge(*T)
	figures() F
	empty() bool
}

// groupTable adds up blocks by group.
type groupTable[T, F any, S sum[T, F]] struct {
	by       *grouping
	bySite   bool // keys have the site: its group or the query's part on it is known at the end alone
	deferred bool // the query's part on sites is looked at in the end
	at       map[groupKey]*T
	recent   [1 << 9]recentGroup[T] // found without the map
	noRoom   T
	most     int
}

type groupKey struct {
	site uint32
	key  uint64
}

// A recentGroup is one that a block was added to lately; sums is nil where there was none.
type recentGroup[T any] struct {
	groupKey
	sums *T
}

func newGroupTable[T, F any, S sum[T, F]](r *runner, deferred bool) groupTable[T, F, S] {
	g := r.grouping
	return groupTable[T, F, S]{
		by: g, bySite: deferred || g.site != nil, deferred: deferred, at: make(map[groupKey]*T), most: r.room,
	}
}

// groups is a collector of Figures by group.
type groups struct {
	groupTable[sums, Figures, *sums]
}

// newCollector makes what the options ask for.
func (r *runner) newCollector(deferred bool) collector {
	switch {
	case r.span != nil:
		return r.span
	case r.opt.Events:
		return newEventList(&r.opt)
	case r.opt.Timeline != 0:
		return newTimeline(&r.opt)
	case r.opt.By == None:
		return newRowList(&r.opt)
	}
	return &groups{newGroupTable[sums, Figures](r, deferred)}
}

func (g *groupTable[T, F, S]) add(s *subject) error {
	var key groupKey
	if g.bySite {
		key.site = s.life.Site
	}
	if g.by.block != nil {
		key.key = g.by.block(s)
	}
	recent := &g.recent[(uint64(key.site)*0x9e3779b97f4a7c15^key.key*0xd6e8feb86659fd93)>>55]
	if recent.sums != nil && recent.groupKey == key {
		S(recent.sums).add(s)
		return nil
	}
	t := g.at[key]
	if t == nil {
		if len(g.at) >= g.most {
			if g.deferred {
				return errNoRoom // some may be of no interest: look again, with names
			}
			S(&g.noRoom).add(s)
			return nil
		}
		t = new(T)
		g.at[key] = t
	}
	*recent = recentGroup[T]{key, t}
	S(t).add(s)
	return nil
}

// A merged group is of one key for a reader.
type merged[T any] struct {
	sums  T
	site  uint32 // the lowest
	sites int
	key   uint64
}

// merge returns the groups as a reader tells them from others, and what all blocks come to.
func (g *groupTable[T, F, S]) merge(r *runner) (all map[string]*merged[T], total T) {
	all = make(map[string]*merged[T])
	S(&total).merge(&g.noRoom)
	s := &subject{}
	for key, t := range g.at {
		if g.deferred {
			if s.site = r.names.of(key.site); !r.query.holdsOf(s) {
				continue
			}
		}
		S(&total).merge(t)
		label := g.by.of(r, key)
		m := all[label]
		if m == nil {
			m = &merged[T]{site: key.site, key: key.key}
			all[label] = m
		}
		S(&m.sums).merge(t)
		m.sites++
		m.site = min(m.site, key.site)
	}
	return all, total
}

// of is what tells a group from others, for a reader.
func (g *grouping) of(r *runner, key groupKey) string {
	if g.site != nil {
		return g.site(&r.names, r.names.of(key.site))
	}
	return g.label(key.key)
}

// A groupRow is a group that is listed.
type groupRow[T, F any] struct {
	Member
	figures F
	sums    *T
}

// A groupList is the first groups in an order, and what the others come to.
type groupList[T, F any] struct {
	sums         T // of all blocks
	rows         []groupRow[T, F]
	omitted      uint64
	rest, noRoom *F // nil: there is none
}

// list lists the first groups in the order of a figure, from high to low, or of their keys where that is nil.
func (g *groupTable[T, F, S]) list(r *runner, by func(*F) uint64) (out groupList[T, F]) {
	all, total := g.merge(r)
	out.sums = total
	rows := make([]groupRow[T, F], 0, len(all))
	for label, m := range all {
		row := groupRow[T, F]{Member: Member{Key: label, sort: m.key}, figures: S(&m.sums).figures(), sums: &m.sums}
		if g.by.site != nil {
			row.Sites = m.sites
		}
		if g.by.word == "site" {
			row.is(r.names.of(m.site))
		}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(x, y groupRow[T, F]) int {
		if by != nil {
			if c := cmp.Compare(by(&y.figures), by(&x.figures)); c != 0 {
				return c
			}
		}
		return cmp.Or(cmp.Compare(x.sort, y.sort), cmp.Compare(x.Key, y.Key), compareSites(x.Site, y.Site))
	})
	if n := r.opt.Limit; n > 0 && len(rows) > n {
		var rest T
		for _, o := range rows[n:] {
			S(&rest).merge(o.sums)
		}
		f := S(&rest).figures()
		out.rest, out.omitted, rows = &f, uint64(len(rows)-n), rows[:n]
	}
	if out.rows = rows; !S(&g.noRoom).empty() {
		f := S(&g.noRoom).figures()
		out.noRoom = &f
	}
	return out
}

func (g *groups) fill(r *runner) {
	res, order := r.result, orderOf(r.opt.Order)
	list := g.list(r, order.group)
	res.By, res.Order = g.by.word, order.word
	res.Total, res.Rest, res.Omitted, res.NoRoom = list.sums.figures(), list.rest, list.omitted, list.noRoom
	res.Groups = make([]Group, 0, len(list.rows))
	for _, row := range list.rows {
		res.Groups = append(res.Groups, Group{Member: row.Member, Figures: row.figures})
	}
}

func compareSites(x, y *uint32) int {
	if x == nil || y == nil {
		return 0
	}
	return cmp.Compare(*x, *y)
}
