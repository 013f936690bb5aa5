package analyzer

import (
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/analyzer/stats"
)

// leaks looks for candidates among all sites that have live blocks. It needs
// the ages that visitBlocks found at now (ns since Config.Start). There
// is none before the warm-up is over.
func (a *Analyzer) leaks(now, minAge, endedAt uint64) []report.Leak {
	if !a.warmedUp {
		return nil
	}
	return leakCandidates(func(yield func(leakSite) bool) {
		for id, s := range a.sites.all {
			if s.live == nil || s.liveCount == 0 || s.other || s.proc.endedBy(endedAt) {
				continue
			}
			if !yield(a.leakSite(id, s, now)) {
				return
			}
		}
	}, minAge)
}

func (a *Analyzer) leakSite(id siteID, s *site, now uint64) leakSite {
	out := leakSite{id: int(id), bytes: s.held(), count: s.lives(), bins: stats.LifetimeBins(&s.lifetimes, &s.live.ages, &s.live.ageBytes)}
	w := &s.live.windows
	now -= min(now, a.warmAt) // what was before does not count
	windowNS := float64(now) / float64(max(a.windows, 1))
	out.stepNS = windowNS * float64(max(w.step, 1))
	out.levels = make([]float64, 0, len(w.samples))
	for _, level := range w.samples {
		out.levels = append(out.levels, float64(level.bytes))
	}
	out.observed = now - min(now, s.live.oldest-min(s.live.oldest, a.warmAt))
	if w.step != 0 {
		out.observed = max(out.observed, min(now, uint64(windowNS*float64(a.windows-w.first))))
	}
	return out
}
