package analyzer

import (
	"slices"

	"github.com/memtrace/memtrace/analyzer/stats"
)

const (
	minWindows   = 8    // fewer say nothing about a trend
	minGrowth    = 4096 // bytes, one page: what a rise must come to over the windows
	leakAlpha    = 0.01 // level of every leak candidate, after Holm's adjustment
	plateauAlpha = 0.2  // the last third must rise on its own at this level
)

// growth is the verdict on the live bytes of a site over its windows.
type growth struct {
	tested  bool    // live bytes moved enough to be counted as a test
	p       float64 // one-sided; 1 where a condition for growth fails
	perStep float64 // bytes from one window to the next (Theil-Sen)
	rises   int     // windows with more live bytes than the one before
	steps   int     // windows that have one before
}

// growthOf tests whether live bytes, one value per window, keep rising. All of
// the following must hold; p is that of the first.
//
//   - The trend is significant: see trendP.
//   - It comes to minGrowth.
//   - The rise is at least twice the deepest fall within the windows.
//   - A quarter of the rise or more was there for good by half-time: what the
//     later windows never fell below again. This and the fall tell a sawtooth,
//     however few of its teeth are in sight, as long as one of them ends.
//   - There is no plateau: the last third rises on its own, at a quarter of the
//     overall slope or more, and the second half at half the slope of the first
//     or more. A cache that fills and stops, or fills ever more slowly, fails.
func growthOf(x []float64) growth {
	g := growth{p: 1}
	if len(x) < minWindows {
		return g
	}
	lowest, last := slices.Min(x), x[len(x)-1]
	g.tested = slices.Max(x)-lowest >= minGrowth
	if !g.tested || last-lowest < minGrowth || last <= x[0] {
		return g
	}
	if deepestFall(x) > (last-lowest)/2 {
		return g
	}
	half := len(x) / 2
	if slices.Min(x[half:])-lowest < (last-lowest)/4 {
		return g
	}
	p := trendP(x)
	if p > leakAlpha { // no adjustment makes it smaller
		return g
	}
	g.perStep = stats.TheilSen(x)
	if g.perStep*float64(len(x)-1) < minGrowth || plateau(x, g.perStep) {
		return g
	}
	for i := 1; i < len(x); i++ {
		g.steps++
		if x[i] > x[i-1] {
			g.rises++
		}
	}
	g.p = p
	return g
}

// deepestFall is the most that x ever fell below an earlier value.
func deepestFall(x []float64) float64 {
	highest, fall := x[0], 0.0
	for _, v := range x {
		highest = max(highest, v)
		fall = max(fall, highest-v)
	}
	return fall
}

// trendP is the one-sided p-value of an upward trend. Live bytes may scatter
// around a line, or walk at random: a walk without drift often ends far from
// where it began, and Mann-Kendall's test alone would call that a trend. So a
// walk that is not ruled out must show drift in its steps as well, and where
// it is ruled out, the dependence that remains widens the variance by
// (1+rho)/(1-rho) (K. H. Hamed, A. R. Rao, J. Hydrol. 204 (1998) 182-196).
func trendP(x []float64) float64 {
	rho, ruledOut := stats.UnitRoot(x)
	if ruledOut {
		rho = min(max(rho, 0), 0.9)
		_, p := stats.MannKendall(x, (1+rho)/(1-rho))
		return p
	}
	_, p := stats.MannKendall(x, 1)
	if p > leakAlpha {
		return p
	}
	steps := make([]float64, len(x)-1)
	for i := range steps {
		steps[i] = x[i+1] - x[i]
	}
	return max(p, stats.SignedRank(steps))
}

// plateau reports whether a rise of perStep has stopped or is dying down.
func plateau(x []float64, perStep float64) bool {
	third := x[len(x)-max(len(x)/3, 3):]
	if _, p := stats.MannKendall(third, 1); p > plateauAlpha {
		return true
	}
	if stats.TheilSen(third) < perStep/4 {
		return true
	}
	half := len(x) / 2
	return stats.TheilSen(x[half:]) < stats.TheilSen(x[:len(x)-half])/2
}
