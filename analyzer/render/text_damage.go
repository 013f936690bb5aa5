package render

import (
	"strconv"
	"strings"

	"github.com/memtrace/memtrace/analyzer/report"
)

// addProcessLoss says what was lost of a process's events, when, and what that
// does to its figures.
func addProcessLoss(p *page, l *report.ProcessLoss) {
	if l == nil || len(l.Spans) == 0 {
		return
	}
	first, last := l.Spans[0], l.Spans[len(l.Spans)-1]
	items := []string{counted(l.Events, "event", "events") + " lost from " + duration(first.FromNS) + " to " + duration(last.ToNS)}
	if n := len(l.Spans); n > 1 {
		items[0] += " in " + counted(uint64(n), "spell", "spells")
	}
	if l.Repaired.Count > 0 {
		items = append(items, counted(l.Repaired.Count, "block", "blocks")+" ("+size(l.Repaired.Bytes)+") freed unseen were taken out")
	}
	if l.DoubtfulCount > 0 {
		items = append(items, counted(l.DoubtfulCount, "live block", "live blocks")+" ("+size(l.DoubtfulBytes)+") may have been freed unseen")
	} else {
		items = append(items, "no live block is in doubt")
	}
	p.flow(warning, "  Lost  ", items, "; ")
}

// addDoubtful says which of the sites shown may have blocks that were freed unseen.
func addDoubtful(p *page, sites []report.Site) {
	var items []string
	for i := range sites {
		if s := &sites[i]; s.DoubtfulCount > 0 {
			items = append(items, "#"+strconv.Itoa(s.ID)+" "+counted(s.DoubtfulCount, "block", "blocks")+" ("+size(s.DoubtfulBytes)+")")
		}
	}
	if len(items) > 0 {
		p.prose(warning, "", "May include blocks whose free was not seen: "+strings.Join(items, ", "))
	}
}
