package report

import (
	"fmt"
	"strings"

	"github.com/memtrace/memtrace/analyzer"
)

// plusMinus writes a standard error behind its figure; nothing where the figure is exact.
func plusMinus(standardError uint64, format func(uint64) string) string {
	if standardError == 0 {
		return ""
	}
	return " ± " + format(standardError)
}

// addSampling says that figures are estimates, and by what.
func addSampling(p *page, s *analyzer.Sampling) {
	if s == nil {
		return
	}
	var steps []string
	for _, bytes := range s.Intervals {
		steps = append(steps, size(bytes))
	}
	p.prose(plain, "", "Sampled: one hit every "+strings.Join(steps, ", then ")+" on average, which chose "+
		counted(s.Blocks, "block", "blocks")+"; figures of allocations are estimates, ± is one standard error.")
}

// addOverhead says what the limit on the overhead did to the trace.
func addOverhead(p *page, o *analyzer.Overhead) {
	if o == nil {
		return
	}
	p.prose(plain, "", fmt.Sprintf("Overhead: %.1f %% of the processes' own time, limit %.1f %% (a hit costs %.0f ns at the entry, %.0f with the return); now %s; traced fully %s, by samples %s, not at all %s.",
		100*o.Share, 100*o.Limit, o.EntryNS, o.ReturnNS, o.Mode, duration(o.FullNS), duration(o.SampledNS), duration(o.PausedNS)))
}

func leakError(l *analyzer.Leak, format func(uint64) string) string {
	if l.Estimate == nil {
		return ""
	}
	return plusMinus(l.Estimate.BytesSE, format)
}
