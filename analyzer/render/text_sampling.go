package render

import (
	"fmt"
	"strings"

	"github.com/memtrace/memtrace/analyzer/report"
)

// plusMinus writes a standard error behind its figure; nothing where the figure is exact.
func plusMinus(standardError uint64, format func(uint64) string) string {
	if standardError == 0 {
		return ""
	}
	return " ± " + format(standardError)
}

// ofSamples says what figures of blocks come from.
func ofSamples(n uint64) string {
	if n == 0 {
		return ""
	}
	return " (of " + counted(n, "sample", "samples") + ")"
}

// addSampling says that figures are estimates, and by what.
func addSampling(p *page, s *report.Sampling) {
	if s == nil {
		return
	}
	var steps []string
	for _, bytes := range s.Intervals {
		steps = append(steps, size(bytes))
	}
	p.prose(plain, "", "Sampled: one hit every "+strings.Join(steps, ", then ")+" on average, which chose "+
		counted(s.Blocks, "block", "blocks")+"; figures of allocations are estimates, ± is one standard error, of so many sampled blocks.")
}

// addOverhead says what the limit on the overhead did to the trace.
func addOverhead(p *page, o *report.Overhead) {
	if o == nil {
		return
	}
	limit := fmt.Sprintf("limit %.1f %%", 100*o.Limit)
	if o.Share > o.Limit && o.LimitedShare > 0 && o.LimitedShare <= o.Limit {
		limit += fmt.Sprintf(" of at least 2 %% of a processor, of which it is %.1f %%", 100*o.LimitedShare)
	}
	p.prose(plain, "", fmt.Sprintf("Overhead: %.1f %% of the processes' own time, %s (a hit costs %.0f ns at the entry, "+
		"%.0f with the return); now %s; traced fully %s, by samples %s, by page faults alone %s, not at all %s.",
		100*o.Share, limit, o.EntryNS, o.ReturnNS, o.Mode, duration(o.FullNS), duration(o.SampledNS), duration(o.NoneNS), duration(o.PausedNS)))
}

// addPressure says when blocks were sampled as events came too fast.
func addPressure(p *page, b *report.Pressure) {
	if b == nil {
		return
	}
	last := b.Spans[len(b.Spans)-1]
	when := "from " + duration(last.FromNS) + " to " + duration(last.ToNS)
	if b.Now {
		when = "since " + duration(last.FromNS)
	}
	if b.Phases > 1 {
		when = "in " + counted(uint64(b.Phases), "phase", "phases") + ", the last one " + when
	}
	text := "Back-pressure: events came faster than memtrace could take them in; for " + duration(b.SampledNS) + ", " + when +
		", one hit every " + size(last.Interval) + " was recorded."
	if b.LeftOut != (report.LeftOut{}) {
		text += " " + counted(b.LeftOut.Alloc, "allocation", "allocations") + ", " + counted(b.LeftOut.Free, "free", "frees") + " and " +
			counted(b.LeftOut.Realloc, "reallocation", "reallocations") + " were counted and not recorded."
	}
	p.prose(warning, "", text)
}

func leakError(l *report.Leak, format func(uint64) string) string {
	if l.Estimate == nil {
		return ""
	}
	return plusMinus(l.Estimate.BytesSE, format) + ofSamples(l.Estimate.Samples)
}
