package analyzer

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/analyzer/stats"
)

// docs/leaks.md says in words what is reported here, what is not, and why.

const (
	minFreed      = 30   // freed blocks from which on a site's lifetimes mean something
	minSurvivors  = 8    // old blocks that make a candidate
	maxConfidence = 0.99 // no statistic proves a leak

	// usualLife is the share of freed blocks whose lifetimes set a site's
	// measure. Not all of them: one straggler in a million must not hide a leak.
	usualLife = 0.999
	oldFactor = 2 // a block is old at this many times that lifetime
	minSpan   = 8 // and a site is judged once seen for this many times
)

// A leakSite is what the search for candidates knows of a site.
type leakSite struct {
	id       int
	bins     []stats.LifetimeBin // ascending; may be empty
	levels   []float64           // live bytes at the end of windows, evenly spaced
	stepNS   float64             // time between levels
	observed uint64              // ns since the site's first block
	bytes    uint64              // live now
	count    uint64              // live blocks now
}

// A finding is a possible candidate before the number of tests is allowed for.
type finding struct {
	leak report.Leak
	p    float64
	why  string // without the p-value
}

// leakCandidates returns growing and old candidates, those that hold most
// first. Blocks younger than minAge (ns) are never old. p-values are adjusted
// within each kind for the number of sites that were tested.
func leakCandidates(sites func(yield func(leakSite) bool), minAge uint64) []report.Leak {
	var growing, old []finding
	for s := range sites {
		if f, tested := growingSite(s); tested {
			growing = append(growing, f)
		}
		if f, tested := oldBlocks(s, minAge); tested {
			old = append(old, f)
		}
	}
	out := append(significant(growing), significant(old)...)
	slices.SortStableFunc(out, func(a, b report.Leak) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Site, b.Site))
	})
	return out
}

// significant keeps the findings whose adjusted p-value is below leakAlpha.
func significant(all []finding) []report.Leak {
	p := make([]float64, len(all))
	for i, f := range all {
		p[i] = f.p
	}
	out := []report.Leak{}
	for i, adjusted := range stats.Holm(p) {
		if adjusted >= leakAlpha {
			continue
		}
		leak := all[i].leak
		leak.Confidence = min(1-adjusted, maxConfidence)
		leak.Why = all[i].why + "; p " + probability(adjusted)
		if len(all) > 1 {
			leak.Why += fmt.Sprintf(" (of %d sites tested)", len(all))
		}
		out = append(out, leak)
	}
	return out
}

// growingSite looks for live bytes that keep rising.
func growingSite(s leakSite) (finding, bool) {
	g := growthOf(s.levels)
	if !g.tested || g.p >= leakAlpha {
		return finding{p: 1}, g.tested
	}
	perSecond := g.perStep / (s.stepNS / float64(time.Second))
	return finding{
		leak: report.Leak{Site: s.id, Kind: "growing", Bytes: s.bytes, Count: s.count, Growing: true, GrowthPerSecond: uint64(max(perSecond, 0))},
		p:    g.p,
		why:  fmt.Sprintf("live bytes rose in %d of %d windows, %s/s, no plateau", g.rises, g.steps, report.HumanBytes(perSecond)),
	}, true
}

// oldBlocks looks for blocks that outlived what the site's freed blocks did,
// at a site where such blocks keep arriving.
func oldBlocks(s leakSite, minAge uint64) (finding, bool) {
	usual, freed := stats.FreedQuantile(s.bins, usualLife)
	if freed < minFreed || usual == 0 || s.observed/minSpan < usual {
		return finding{}, false
	}
	old := max(oldFactor*usual, minAge)
	count, bytes := olderThan(s.bins, old)
	if count < minSurvivors {
		return finding{}, false
	}
	p := max(stats.Immortality(s.bins, usual), arrivals(s.bins, usual, s.observed))
	share := stats.SurvivingAt(stats.KaplanMeier(s.bins), usual)
	why := fmt.Sprintf("%d live blocks are older than %s, while %g %% of the site's %d freed blocks lived %s at most; "+
		"more keep arriving, as %s of all its blocks live longer than that (Kaplan-Meier)",
		count, report.HumanTime(old), 100*usualLife, freed, report.HumanTime(usual), shareText(share))
	return finding{leak: report.Leak{Site: s.id, Kind: "old", Bytes: bytes, Count: count}, p: p, why: why}, true
}

// olderThan counts live blocks in the bins that begin at an age or later.
func olderThan(bins []stats.LifetimeBin, age uint64) (count, bytes uint64) {
	lower := uint64(0)
	for _, b := range bins {
		if lower >= age {
			count += b.Live
			bytes += b.LiveBytes
		}
		lower = b.UpTo
	}
	return count, bytes
}

// arrivals is the p-value of the hypothesis that the live blocks older than
// usual came at once, or have stopped coming: that at most a tenth of them was
// allocated in the later half of the time in which such blocks can have been.
// It is 1 unless some came in its last quarter.
func arrivals(bins []stats.LifetimeBin, usual, observed uint64) float64 {
	var total, later, latest float64
	middle := usual + (observed-usual)/2
	quarter := usual + (observed-usual)/4
	lower := uint64(0)
	for _, b := range bins {
		if lower >= usual {
			upper := min(b.UpTo, max(observed, lower+1))
			total += float64(b.Live)
			later += float64(b.Live) * shareBelow(lower, upper, middle)
			latest += float64(b.Live) * shareBelow(lower, upper, quarter)
		}
		lower = b.UpTo
	}
	if latest < 1 || latest < total/16 {
		return 1
	}
	return stats.BinomialAtLeast(uint64(later), uint64(math.Ceil(total)), 0.1)
}

// shareBelow is the share of (lower, upper] that is not above limit.
func shareBelow(lower, upper, limit uint64) float64 {
	switch {
	case limit >= upper:
		return 1
	case limit <= lower:
		return 0
	}
	return float64(limit-lower) / float64(upper-lower)
}

// probability writes a p-value: "= 0.003", "= 2e-6", "< 1e-15".
func probability(p float64) string {
	switch {
	case p < 1e-15:
		return "< 1e-15"
	case p < 0.001:
		return strings.Replace(fmt.Sprintf("= %.0e", p), "e-0", "e-", 1)
	}
	return fmt.Sprintf("= %.1g", p)
}

func shareText(s stats.SurvivalStep) string {
	return fmt.Sprintf("%.2g ± %.1g %%", 100*s.Surviving, 100*s.StdErr)
}
