package stats

import (
	"math"
	"slices"
)

// MannKendall tests for an upward trend: it returns the sum S of the signs of
// all differences x[j]-x[i], i < j, and the one-sided p-value of a sum as high
// as that if the order of the values were random. Below 10 values the p-value
// is exact, ties included; from there on normal, with the correction for ties.
// inflation multiplies the variance of S, for values that depend on their
// predecessors; 1 for independent ones.
//
// H. B. Mann: Nonparametric tests against trend. Econometrica 13 (1945)
// 245-259; M. G. Kendall: Rank correlation methods (1975).
func MannKendall(x []float64, inflation float64) (s int, p float64) {
	for i := range x {
		for _, later := range x[i+1:] {
			switch {
			case later > x[i]:
				s++
			case later < x[i]:
				s--
			}
		}
	}
	ties := tieGroups(x)
	if len(x) < 10 && inflation <= 1 {
		return s, kendallExact(s, ties)
	}
	variance := pairings(len(x))
	for _, t := range ties {
		variance -= pairings(t)
	}
	if variance <= 0 {
		return s, 1
	}
	sd := math.Sqrt(variance * max(inflation, 1))
	// Continuity: S moves in steps of 2.
	return s, normalAbove((float64(s) - 1) / sd)
}

// pairings is n(n-1)(2n+5)/18, the variance of S of n values without ties.
func pairings(n int) float64 {
	f := float64(n)
	return f * (f - 1) * (2*f + 5) / 18
}

// tieGroups returns how often each distinct value occurs.
func tieGroups(x []float64) []int {
	sorted := slices.Sorted(slices.Values(x))
	var groups []int
	for i, v := range sorted {
		if i == 0 || v != sorted[i-1] {
			groups = append(groups, 0)
		}
		groups[len(groups)-1]++
	}
	return groups
}

// kendallExact is P(S >= s) if all orders of the values are equally likely.
// The number of inversions of the arrangements of a multiset has the
// q-multinomial coefficient for its generating function (P. A. MacMahon,
// 1916), and S is the number of untied pairs less twice the inversions.
func kendallExact(s int, ties []int) float64 {
	ways := []float64{1} // by number of inversions
	n, untied := 0, 0
	for _, t := range ties {
		untied += n * t
		n += t
		ways = timesGaussian(ways, n, t)
	}
	var total, atLeast float64
	for inversions, w := range ways {
		total += w
		if untied-2*inversions >= s {
			atLeast += w
		}
	}
	return atLeast / total
}

// timesGaussian multiplies a polynomial by the Gaussian binomial [n over k]:
// by (1-q^(n-k+i))/(1-q^i) for i = 1..k.
func timesGaussian(poly []float64, n, k int) []float64 {
	for i := 1; i <= k; i++ {
		up := n - k + i
		grown := make([]float64, len(poly)+up)
		for j, c := range poly {
			grown[j] += c
			grown[j+up] -= c
		}
		for j := i; j < len(grown); j++ {
			grown[j] += grown[j-i]
		}
		poly = grown[:len(poly)+up-i]
	}
	return poly
}

// TheilSen is the median slope of all pairs of values, per step; 0 where there is none. P. K. Sen:
// Estimates of the regression coefficient based on Kendall's tau. J. Am. Stat.
// Assoc. 63 (1968) 1379-1389.
func TheilSen(x []float64) float64 {
	slopes := make([]float64, 0, len(x)*(len(x)-1)/2)
	for i := range x {
		for j := i + 1; j < len(x); j++ {
			slopes = append(slopes, (x[j]-x[i])/float64(j-i))
		}
	}
	if len(slopes) == 0 {
		return 0
	}
	slices.Sort(slopes)
	mid := len(slopes) / 2
	if len(slopes)%2 == 0 {
		return (slopes[mid-1] + slopes[mid]) / 2
	}
	return slopes[mid]
}

// SignedRank is the one-sided p-value, exact, of steps that are as positive
// as those given, if each were as likely down as up: a random walk without
// drift. Zeros are left out, equal magnitudes share their rank. F. Wilcoxon:
// Individual comparisons by ranking methods. Biometrics 1 (1945) 80-83.
func SignedRank(steps []float64) float64 {
	moved := slices.DeleteFunc(slices.Clone(steps), func(d float64) bool { return d == 0 })
	slices.SortFunc(moved, func(a, b float64) int {
		switch a, b = math.Abs(a), math.Abs(b); {
		case a < b:
			return -1
		case a > b:
			return 1
		}
		return 0
	})
	// The probability of each sum of positive ranks, all doubled so that
	// midranks are whole.
	ways := make([]float64, len(moved)*(len(moved)+1)+1)
	ways[0] = 1
	sum, top := 0, 0
	for first := 0; first < len(moved); {
		end := first
		for end < len(moved) && math.Abs(moved[end]) == math.Abs(moved[first]) {
			end++
		}
		rank := first + end + 1 // twice the mean of ranks first+1..end
		for _, d := range moved[first:end] {
			if d > 0 {
				sum += rank
			}
			top += rank
			flip(ways[:top+1], rank)
		}
		first = end
	}
	p := 0.0
	for _, w := range ways[sum:] {
		p += w
	}
	return min(p, 1)
}

// flip adds one more rank, in place, that is as likely positive as negative.
func flip(ways []float64, rank int) {
	for i := len(ways) - 1; i >= rank; i-- {
		ways[i] = (ways[i] + ways[i-rank]) / 2
	}
	for i := range min(rank, len(ways)) {
		ways[i] /= 2
	}
}

// UnitRoot looks for a random walk: it returns how much of a deviation from
// the straight line through x is still there one step later (1: all of it, a
// random walk), and whether a random walk with drift is ruled out at the 1 %
// level. D. A. Dickey, W. A. Fuller, J. Am. Stat. Assoc. 74 (1979) 427-431;
// critical values of n(rho-1) from W. A. Fuller: Introduction to statistical
// time series (1976), table 8.5.1. Below 25 values it is never ruled out.
func UnitRoot(x []float64) (rho float64, ruledOut bool) {
	u := detrended(x)
	var cross, square float64
	for i := 1; i < len(u); i++ {
		cross += u[i] * u[i-1]
		square += u[i-1] * u[i-1]
	}
	if square == 0 {
		return 0, len(x) >= 25
	}
	rho = cross / square
	n := float64(len(x))
	if n < 25 {
		return rho, false
	}
	table := [...][2]float64{{25, -22.5}, {50, -25.7}, {100, -27.4}, {250, -28.4}, {500, -28.9}}
	critical := table[len(table)-1][1]
	for i := 1; i < len(table); i++ {
		if lo, hi := table[i-1], table[i]; n < hi[0] {
			critical = lo[1] + (hi[1]-lo[1])*(n-lo[0])/(hi[0]-lo[0])
			break
		}
	}
	return rho, n*(rho-1) < critical
}

// detrended is x less its least-squares line.
func detrended(x []float64) []float64 {
	n := float64(len(x))
	var sumX, sumTX float64
	for t, v := range x {
		sumX += v
		sumTX += (float64(t) - (n-1)/2) * v
	}
	slope := 0.0
	if n > 1 {
		slope = sumTX / (n * (n*n - 1) / 12)
	}
	out := make([]float64, len(x))
	for t, v := range x {
		out[t] = v - sumX/n - slope*(float64(t)-(n-1)/2)
	}
	return out
}

// normalAbove is P(Z > z) of a standard normal variable.
func normalAbove(z float64) float64 { return math.Erfc(z/math.Sqrt2) / 2 }

// Holm adjusts p-values for their number, so that the chance of one false
// finding among all stays below the level. S. Holm: A simple sequentially
// rejective multiple test procedure. Scand. J. Stat. 6 (1979) 65-70.
func Holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		switch {
		case p[a] < p[b]:
			return -1
		case p[a] > p[b]:
			return 1
		}
		return a - b
	})
	out := make([]float64, len(p))
	highest := 0.0
	for rank, i := range order {
		highest = max(highest, min(1, p[i]*float64(len(p)-rank)))
		out[i] = highest
	}
	return out
}
