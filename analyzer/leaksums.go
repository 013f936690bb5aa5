package analyzer

import (
	"math"

	"github.com/memtrace/memtrace/analyzer/report"
)

// leakSums are verdicts on many processes that share sites: one a site and
// kind, so that they take no more memory than the sites do.
type leakSums struct{ leaks map[leakKey]report.Leak }

type leakKey struct {
	site     int
	kind     string
	doubtful bool
}

// add takes in the verdicts on one more process. Their blocks' ages are still
// times of allocation: see Analyzer.count.
func (s *leakSums) add(verdicts []report.Leak) {
	for _, l := range verdicts {
		key := leakKey{l.Site, l.Kind, l.Doubtful}
		if s.leaks == nil {
			s.leaks = make(map[leakKey]report.Leak)
		}
		if sum, ok := s.leaks[key]; ok {
			l = sumOfLeaks(sum, &l)
		}
		s.leaks[key] = l
	}
}

// sumOfLeaks is the sum of two verdicts on one site in two processes. It is as certain
// as the less certain of them, and says why that is.
func sumOfLeaks(l report.Leak, o *report.Leak) report.Leak {
	if o.Confidence < l.Confidence {
		l.Confidence, l.Why = o.Confidence, o.Why
	}
	l.Bytes += o.Bytes
	l.Count += o.Count
	l.SeenBytes += o.SeenBytes
	l.WarmUpBytes += o.WarmUpBytes
	l.OldestNS, l.NewestNS = min(l.OldestNS, o.OldestNS), max(l.NewestNS, o.NewestNS)
	l.Estimate = sumOfErrors(l.Estimate, o.Estimate)
	return l
}

// sumOfErrors adds up the errors of two sums, which have nothing to do with each other.
func sumOfErrors(e, o *report.LeakEstimate) *report.LeakEstimate {
	switch {
	case e == nil:
		return o
	case o == nil:
		return e
	}
	return &report.LeakEstimate{
		Samples: e.Samples + o.Samples,
		BytesSE: uint64(math.Round(math.Hypot(float64(e.BytesSE), float64(o.BytesSE)))),
		CountSE: uint64(math.Round(math.Hypot(float64(e.CountSE), float64(o.CountSE)))),
	}
}
