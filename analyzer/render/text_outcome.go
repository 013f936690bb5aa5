package render

import (
	"fmt"

	"github.com/memtrace/memtrace/analyzer/report"
)

// addOutcome says whether the job passes, rule by rule.
func addOutcome(p *page, o *report.Outcome) {
	if o == nil {
		return
	}
	p.line(plain, "")
	st := bold
	if o.Failed || len(o.Problems) > 0 {
		st = alarm
	}
	p.line(st, "Check: "+headline(o))
	width := 0
	for i := range o.Rules {
		width = max(width, columns(clean(o.Rules[i].Rule)))
	}
	for i := range o.Rules {
		rule := &o.Rules[i]
		p.line(plain, fmt.Sprintf("  %-7s  %s  %s", rule.Status, pad(clean(rule.Rule), width, false), rule.Figure))
	}
	for _, problem := range o.Problems {
		p.prose(alarm, "  Problem: ", problem)
	}
	for _, note := range outcomeNotes(o) {
		p.prose(plain, "  ", note)
	}
}

// outcomeNotes tell of leaks that did not count, and of those that are gone.
func outcomeNotes(o *report.Outcome) (out []string) {
	if n := o.Known.Count; n > 0 {
		out = append(out, "known to the baseline, and not counted: "+size(o.Known.Bytes)+" in "+counted(n, "block", "blocks"))
	}
	if n := o.Suppressed.Count; n > 0 {
		out = append(out, "suppressed: "+size(o.Suppressed.Bytes)+" in "+counted(n, "block", "blocks"))
	}
	for i := range o.Gone[:min(len(o.Gone), maxListed)] {
		g := &o.Gone[i]
		out = append(out, "in the baseline, and not found any more: "+g.Kind+" leak of "+size(g.Bytes)+" in "+counted(g.Count, "block", "blocks")+", "+g.Function)
	}
	if rest := len(o.Gone) - maxListed; rest > 0 {
		out = append(out, "and "+count(uint64(rest))+" more that were in the baseline")
	}
	return out
}
