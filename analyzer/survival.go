package analyzer

import "math"

// A lifetimeBin counts the blocks of a site whose lifetime, or age if they are
// live, is in (the preceding bin's upTo, upTo].
type lifetimeBin struct {
	upTo      uint64 // ns
	freed     uint64 // lifetimes that ended in the bin
	live      uint64 // ages of live blocks: lifetimes that are censored there
	liveBytes uint64
}

// A survivalStep is the survival curve just after a bin.
type survivalStep struct {
	upTo      uint64  // ns
	surviving float64 // estimated share of blocks that live longer than upTo
	stdErr    float64 // its standard error, by Greenwood's formula
}

// kaplanMeier estimates the survival curve of a site from lifetimes (freed
// blocks) and ages (live blocks, whose lifetimes are censored). Bins ascend.
// It has one step per bin in which blocks were freed.
//
//	S(t) = Π over bins up to t of (1 - freed/atRisk)
//
// Within a bin, censoring counts as later than freeing, as is the custom for
// ties. E. L. Kaplan, P. Meier: Nonparametric estimation from incomplete
// observations. J. Am. Stat. Assoc. 53 (1958) 457-481; M. Greenwood: The
// natural duration of cancer (1926).
func kaplanMeier(bins []lifetimeBin) []survivalStep {
	var atRisk uint64
	for _, b := range bins {
		atRisk += b.freed + b.live
	}
	var steps []survivalStep
	surviving, greenwood := 1.0, 0.0
	for _, b := range bins {
		if b.freed > 0 {
			n, d := float64(atRisk), float64(b.freed)
			surviving *= 1 - d/n
			greenwood += d / (n * (n - d)) // +Inf where nobody is left; surviving is 0 then
			steps = append(steps, survivalStep{b.upTo, surviving, greenwoodError(surviving, greenwood)})
		}
		atRisk -= b.freed + b.live
	}
	return steps
}

func greenwoodError(surviving, sum float64) float64 {
	if surviving == 0 {
		return 0
	}
	return surviving * math.Sqrt(sum)
}

// survivingAt is the step of a curve that holds at an age; before the first it
// is 1 without error.
func survivingAt(curve []survivalStep, age uint64) survivalStep {
	at := survivalStep{surviving: 1}
	for _, step := range curve {
		if step.upTo > age {
			break
		}
		at = step
	}
	return at
}

// freedQuantile is the bound of the bin by whose end the share q of the freed
// blocks had been freed, and the number of freed blocks.
func freedQuantile(bins []lifetimeBin, q float64) (upTo, freed uint64) {
	for _, b := range bins {
		freed += b.freed
	}
	need := uint64(math.Ceil(q * float64(freed)))
	var sum uint64
	for _, b := range bins {
		if sum += b.freed; sum >= need && sum > 0 {
			return b.upTo, freed
		}
	}
	return 0, freed
}

// immortality tests whether blocks that reached an age stay for good. It
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
func immortality(bins []lifetimeBin, from uint64) float64 {
	if from == 0 {
		return 1
	}
	var exposure float64
	var freed uint64
	lower := uint64(0)
	for _, b := range bins {
		if lower >= from {
			exposure += float64(b.freed+b.live) * math.Log(float64(lower)/float64(from))
			freed += b.freed
		}
		lower = b.upTo
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

// binomialAtLeast is P(X >= k) of n trials of probability p. Beyond 1,000
// trials it scales n and k down, which errs on the side of a larger value.
func binomialAtLeast(k, n uint64, p float64) float64 {
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
