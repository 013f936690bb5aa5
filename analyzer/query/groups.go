package query

import (
	"cmp"
	"slices"
)

// groups is a collector of sums by group.
type groups struct {
	by       *grouping
	bySite   bool // keys have the site: its group or the query's part on it is known at the end alone
	deferred bool // the query's part on sites is looked at in the end
	at       map[groupKey]*sums
	recent   [1 << 9]recentGroup // found without the map
	noRoom   sums
	most     int
}

type groupKey struct {
	site uint32
	key  uint64
}

// A recentGroup is one that a block was added to lately; sums is nil where there was none.
type recentGroup struct {
	groupKey
	sums *sums
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
	g := r.grouping
	return &groups{by: g, bySite: deferred || g.site != nil, deferred: deferred, at: make(map[groupKey]*sums), most: r.room}
}

func (g *groups) add(s *subject) error {
	var key groupKey
	if g.bySite {
		key.site = s.life.Site
	}
	if g.by.block != nil {
		key.key = g.by.block(s)
	}
	recent := &g.recent[(uint64(key.site)*0x9e3779b97f4a7c15^key.key*0xd6e8feb86659fd93)>>55]
	if recent.sums != nil && recent.groupKey == key {
		recent.sums.add(s)
		return nil
	}
	t := g.at[key]
	if t == nil {
		if len(g.at) >= g.most {
			if g.deferred {
				return errNoRoom // some may be of no interest: look again, with names
			}
			g.noRoom.add(s)
			return nil
		}
		t = &sums{}
		g.at[key] = t
	}
	*recent = recentGroup{key, t}
	t.add(s)
	return nil
}

// A merged group is of one key for a reader.
type merged struct {
	sums
	site  uint32 // the lowest
	sites int
	key   uint64
}

func (g *groups) fill(r *runner) {
	res := r.result
	res.By, res.Order = g.by.word, orderOf(r.opt.Order).word
	all := make(map[string]*merged)
	total := g.noRoom
	s := &subject{}
	for key, t := range g.at {
		if g.deferred {
			if s.site = r.names.of(key.site); !r.query.holdsOf(s) {
				continue
			}
		}
		total.merge(t)
		label := g.by.of(r, key)
		m := all[label]
		if m == nil {
			m = &merged{site: key.site, key: key.key}
			all[label] = m
		}
		m.merge(t)
		m.sites++
		m.site = min(m.site, key.site)
	}
	res.Total = total.figures()
	g.list(r, all)
	if g.noRoom.count != 0 {
		f := g.noRoom.figures()
		res.NoRoom = &f
	}
}

// of is what tells a group from others, for a reader.
func (g *grouping) of(r *runner, key groupKey) string {
	if g.site != nil {
		return g.site(&r.names, r.names.of(key.site))
	}
	return g.label(key.key)
}

// list lists the first groups in their order, and sums up the others.
func (g *groups) list(r *runner, all map[string]*merged) {
	out := make([]Group, 0, len(all))
	for label, m := range all {
		row := Group{Member: Member{Key: label, sort: m.key}, Figures: m.figures(), sums: &m.sums}
		if g.by.site != nil {
			row.Sites = m.sites
		}
		if g.by.word == "site" {
			row.is(r.names.of(m.site))
		}
		out = append(out, row)
	}
	by := orderOf(r.opt.Order)
	slices.SortFunc(out, func(x, y Group) int {
		if by.group != nil {
			if c := cmp.Compare(by.group(&y.Figures), by.group(&x.Figures)); c != 0 {
				return c
			}
		}
		return cmp.Or(cmp.Compare(x.sort, y.sort), cmp.Compare(x.Key, y.Key), compareSites(x.Site, y.Site))
	})
	if n := r.opt.Limit; n > 0 && len(out) > n {
		var rest sums
		for _, o := range out[n:] {
			rest.merge(o.sums)
		}
		f := rest.figures()
		r.result.Rest, r.result.Omitted, out = &f, uint64(len(out)-n), out[:n]
	}
	r.result.Groups = out
}

func compareSites(x, y *uint32) int {
	if x == nil || y == nil {
		return 0
	}
	return cmp.Compare(*x, *y)
}
