//go:build linux && !viewer

package goheap

import "math"

// counts are samples of one size: how many, and their bytes.
type counts struct{ count, bytes uint64 }

// An Estimate is what samples stand for, with the variance of that.
type Estimate struct {
	Samples          uint64 // blocks that were sampled
	Count, Bytes     uint64
	VarCount, VarByt float64
}

func (e *Estimate) add(o Estimate) {
	e.Samples += o.Samples
	e.Count += o.Count
	e.Bytes += o.Bytes
	e.VarCount += o.VarCount
	e.VarByt += o.VarByt
}

// CountSE is the standard error of Count.
func (e Estimate) CountSE() uint64 { return uint64(math.Sqrt(e.VarCount)) }

// BytesSE is that of Bytes.
func (e Estimate) BytesSE() uint64 { return uint64(math.Sqrt(e.VarByt)) }

// scale estimates what samples stand for, rounded as pprof does (runtime/pprof/protomem.go, scaleHeapSample): a block of size s is
// sampled with probability p = 1-exp(-s/rate). Each sample adds (1-p)/p² to the variance of the number of blocks.
func (c counts) scale(rate int64) Estimate {
	if c.count == 0 || c.bytes == 0 {
		return Estimate{}
	}
	out := Estimate{Samples: c.count, Count: c.count, Bytes: c.bytes}
	if rate <= 1 {
		return out
	}
	size := float64(c.bytes) / float64(c.count)
	p := 1 - math.Exp(-size/float64(rate))
	out.Count, out.Bytes = bounded(float64(c.count)/p), bounded(float64(c.bytes)/p)
	out.VarCount = float64(c.count) * (1 - p) / (p * p)
	out.VarByt = out.VarCount * size * size
	return out
}

// bounded keeps what a target claims from wrapping round, in sums of as many buckets as are read.
func bounded(v float64) uint64 { return uint64(min(v, 1<<44)) }
