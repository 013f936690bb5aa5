package stats

import "math"

// A LifetimeBin counts the blocks of a site whose lifetime, or age if they are
// live, is in (the preceding bin's UpTo, UpTo].
type LifetimeBin struct {
	UpTo      uint64 // ns
	Freed     uint64 // lifetimes that ended in the bin
	Live      uint64 // ages of live blocks: lifetimes that are censored there
	LiveBytes uint64
}

// LifetimeBins merges what is counted by DurationBucket: the lifetimes of freed
// blocks, and the ages of live ones, by blocks and by their bytes. Ages and bytes
// have the same buckets in use. The first bin is empty, so that the others have a
// lower bound. Where no block was freed there are none.
func LifetimeBins(lifetimes, ages, ageBytes *Histogram) []LifetimeBin {
	if len(lifetimes.n) == 0 {
		return nil
	}
	first, end := int(lifetimes.lo), int(lifetimes.lo)+len(lifetimes.n)
	if len(ages.n) > 0 {
		first, end = min(first, int(ages.lo)), max(end, int(ages.lo)+len(ages.n))
	}
	first = max(first-1, 0)
	bins := make([]LifetimeBin, end-first)
	for i := range bins {
		bins[i].UpTo = DurationMax(first + i)
	}
	for b, n := range lifetimes.All {
		bins[b-first].Freed = n
	}
	for b, n := range ages.All {
		bins[b-first].Live = n
	}
	for b, n := range ageBytes.All {
		bins[b-first].LiveBytes = n
	}
	return bins
}

// A SurvivalStep is the survival curve just after a bin.
type SurvivalStep struct {
	UpTo      uint64  // ns
	Surviving float64 // estimated share of blocks that live longer than UpTo
	StdErr    float64 // its standard error, by Greenwood's formula
}

// KaplanMeier estimates the survival curve of a site from lifetimes (freed
// blocks) and ages (live blocks, whose lifetimes are censored). Bins ascend.
// It has one step per bin in which blocks were freed.
//
//	S(t) = Π over bins up to t of (1 - freed/atRisk)
//
// Within a bin, censoring counts as later than freeing, as is the custom for
// ties. E. L. Kaplan, P. Meier: Nonparametric estimation from incomplete
// observations. J. Am. Stat. Assoc. 53 (1958) 457-481; M. Greenwood: The
// natural duration of cancer (1926).
func KaplanMeier(bins []LifetimeBin) []SurvivalStep {
	var atRisk uint64
	for _, b := range bins {
		atRisk += b.Freed + b.Live
	}
	var steps []SurvivalStep
	surviving, greenwood := 1.0, 0.0
	for _, b := range bins {
		if b.Freed > 0 {
			n, d := float64(atRisk), float64(b.Freed)
			surviving *= 1 - d/n
			greenwood += d / (n * (n - d)) // +Inf where nobody is left; surviving is 0 then
			steps = append(steps, SurvivalStep{b.UpTo, surviving, greenwoodError(surviving, greenwood)})
		}
		atRisk -= b.Freed + b.Live
	}
	return steps
}

func greenwoodError(surviving, sum float64) float64 {
	if surviving == 0 {
		return 0
	}
	return surviving * math.Sqrt(sum)
}

// SurvivingAt is the step of a curve that holds at an age (ns); before the first it
// is 1 without error.
func SurvivingAt(curve []SurvivalStep, age uint64) SurvivalStep {
	at := SurvivalStep{Surviving: 1}
	for _, step := range curve {
		if step.UpTo > age {
			break
		}
		at = step
	}
	return at
}

// FreedQuantile is the bound (ns) of the bin by whose end the share q of the freed
// blocks had been freed, and the number of freed blocks.
func FreedQuantile(bins []LifetimeBin, q float64) (upTo, freed uint64) {
	for _, b := range bins {
		freed += b.Freed
	}
	need := uint64(math.Ceil(q * float64(freed)))
	var sum uint64
	for _, b := range bins {
		if sum += b.Freed; sum >= need && sum > 0 {
			return b.UpTo, freed
		}
	}
	return 0, freed
}

// Immortality tests whether blocks that reached an age stay for good. It
// returns the one-sided p-value of the hypothesis that from there on they are
// still being freed at a rate that would, at a steady rate of allocation, keep
// live bytes bounded.
//
// The boundary is the Pareto tail P(lifetime > x) = from/x: with a heavier
// tail, the mean lifetime is infinite and live bytes rise for ever. On the
// scale ln(lifetime) its hazard is 1, so among blocks exposed for the sum E of
// ln(lifetime/from) and ln(age/from), the number freed is Poisson with mean E.
// Where none was freed, this is Π from/age. Bins count by their lower bounds,
// which makes E and the evidence smaller.
func Immortality(bins []LifetimeBin, from uint64) float64 {
	if from == 0 {
		return 1
	}
	var exposure float64
	var freed uint64
	lower := uint64(0)
	for _, b := range bins {
		if lower >= from {
			exposure += float64(b.Freed+b.Live) * math.Log(float64(lower)/float64(from))
			freed += b.Freed
		}
		lower = b.UpTo
	}
	return poissonAtMost(freed, exposure)
}

// poissonAtMost is P(X <= k) of a Poisson variable of the given mean.
func poissonAtMost(k uint64, mean float64) float64 {
	if mean <= 0 {
		return 1
	}
	if k > 10_000 { // by the normal approximation; its error is then < 1 % of a standard deviation
		return normalAbove((mean - float64(k) - 0.5) / math.Sqrt(mean))
	}
	logTerm, sum := -mean, 0.0
	for i := uint64(0); ; i++ {
		sum += math.Exp(logTerm)
		if i == k {
			return min(sum, 1)
		}
		logTerm += math.Log(mean / float64(i+1))
	}
}

// BinomialAtLeast is P(X >= k) of n trials of probability p. Beyond 1,000
// trials it scales n and k down, which errs on the side of a larger value.
func BinomialAtLeast(k, n uint64, p float64) float64 {
	const most = 1000
	if n > most {
		k, n = uint64(float64(k)*most/float64(n)), most
	}
	if k == 0 {
		return 1
	}
	logFactorial := func(v uint64) float64 {
		g, _ := math.Lgamma(float64(v) + 1)
		return g
	}
	sum := 0.0
	for i := k; i <= n; i++ {
		sum += math.Exp(logFactorial(n) - logFactorial(i) - logFactorial(n-i) +
			float64(i)*math.Log(p) + float64(n-i)*math.Log1p(-p))
	}
	return min(sum, 1)
}
