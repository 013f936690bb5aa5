package render

import "fmt"

const (
	leastSites = 4 // lines of the table of sites: a heading, two sites, the count of the others
	leastTable = 3 // lines of a table below it: a title, a heading, one row
)

// tables lays out the table of sites and, where the Report has them, those of
// regions and of pools below it, in at most rows lines.
func (s screen) tables(rows int) []string {
	below := s.tablesBelow()
	wants := make([]int, len(below))
	for i := range below {
		wants[i] = below[i].count + leastTable // with a blank line
	}
	sites := s.sites(rows)
	shares := shareOut(rows, len(sites), wants)
	for _, share := range shares {
		rows -= share
	}
	out := s.sites(rows)
	for i, share := range shares {
		out = append(out, s.below(below[i], share)...)
	}
	return out
}

// A tableBelow is a table under that of sites: count rows of all that there are.
type tableBelow struct {
	title  string
	what   string // that is in it, in the plural
	count  int
	all    int
	addFor func(p *page, rows int)
}

func (s screen) tablesBelow() (out []tableBelow) {
	if regions := regionsInUse(s.r); len(regions) > 0 {
		out = append(out, tableBelow{regionsTitle, "call sites", s.atMost(len(regions)), len(regions) + s.r.RegionsMore,
			func(p *page, rows int) { addRegionTable(p, s.r, regions[:rows]) }})
	}
	if pools, more := allPools(s.r); len(pools) > 0 {
		out = append(out, tableBelow{"POOLS", "names", s.atMost(len(pools)), len(pools) + more,
			func(p *page, rows int) { addPoolTable(p, s.r, pools[:rows]) }})
	}
	return out
}

// atMost is n, or what --top allows of it.
func (s screen) atMost(n int) int {
	if s.opt.Top > 0 {
		return min(n, s.opt.Top)
	}
	return n
}

// below lays a table out in at most rows lines: the title alone where there is
// no room for a row, a blank line before it where there is room for that, too.
func (s screen) below(t tableBelow, rows int) []string {
	if rows < 1 {
		return nil
	}
	blank := rows > leastTable
	if blank {
		rows--
	}
	shown := max(min(t.count, rows-leastTable+1), 0)
	return s.part(func(p *page) {
		if blank {
			p.line(plain, "")
		}
		switch {
		case shown == 0:
			p.line(bold, fmt.Sprintf("%s  %d %s, no room for them", t.title, t.all, t.what))
		case shown < t.all:
			p.line(bold, fmt.Sprintf("%s  %d of %d %s", t.title, shown, t.all, t.what))
		default:
			p.line(bold, t.title)
		}
		if shown > 0 {
			t.addFor(p, shown)
		}
	})
}

// shareOut divides rows between the table of sites, which wants some and gets
// what is not shared out, and the tables below it: a quarter for each of those,
// and what sites don't need to whoever comes first. Where there is no room for a
// row there is one for the title, or none.
func shareOut(rows, sites int, wants []int) []int {
	shares := make([]int, len(wants))
	left := rows - min(sites, leastSites)
	for i, want := range wants {
		switch share := min(want, max(leastTable, rows/4)); {
		case left >= share+len(wants)-1-i: // a line for each of the others' titles
			shares[i] = share
		case left >= 1:
			shares[i] = 1
		}
		left -= shares[i]
	}
	spare := left - (sites - min(sites, leastSites))
	for i, want := range wants {
		more := min(max(spare, 0), want-shares[i])
		if shares[i]+more < leastTable {
			continue // no row would come of it
		}
		shares[i] += more
		spare -= more
	}
	return shares
}
