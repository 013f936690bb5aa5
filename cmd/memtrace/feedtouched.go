//go:build linux && !viewer

package main

import "github.com/memtrace/memtrace/analyzer/report"

// touchedSites is what the agent was told that each site has touched, by the site's ID. It isn't kept by stack: names
// may become known later, and the site then has another stack. What it had touched before would be told again under
// that.
type touchedSites []touchedPages

// touchedPages are pages that were touched.
type touchedPages struct{ bytes, count uint64 }

// since is what each row of a Report has touched since the Report before. What is no longer in a Report takes nothing
// back.
func (t *touchedSites) since(rows []report.Site) []touchedPages {
	news := make([]touchedPages, len(rows))
	var again touchedPages // told already, and now in another row
	for i := range rows {
		is, was := touchedPages{rows[i].AllocBytes, rows[i].AllocCount}, t.replace(&rows[i])
		news[i] = touchedPages{is.bytes - min(was.bytes, is.bytes), is.count - min(was.count, is.count)}
		again.bytes += was.bytes - min(was.bytes, is.bytes)
		again.count += was.count - min(was.count, is.count)
	}
	if again == (touchedPages{}) {
		return news
	}
	// A row of several sites has become several rows. What came while it was one was told then.
	for i := range news {
		bytes, count := min(news[i].bytes, again.bytes), min(news[i].count, again.count)
		news[i] = touchedPages{news[i].bytes - bytes, news[i].count - count}
		again = touchedPages{again.bytes - bytes, again.count - count}
	}
	return news
}

// replace notes a row's figures under its own ID, and returns those that were told of it and of the sites merged into
// it.
func (t *touchedSites) replace(row *report.Site) (was touchedPages) {
	for _, id := range append([]int{row.ID}, row.MergedIDs...) {
		for len(*t) <= id {
			*t = append(*t, touchedPages{})
		}
		was.bytes += (*t)[id].bytes
		was.count += (*t)[id].count
		(*t)[id] = touchedPages{}
	}
	(*t)[row.ID] = touchedPages{row.AllocBytes, row.AllocCount}
	return was
}
