package analyzer

import (
	"math"

	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/analyzer/stats"
)

// A block of s bytes is in a sample with probability p = 1 - exp(-s/interval),
// whatever became of other blocks, so it stands for 1/p blocks of its kind: the
// sum of what all blocks of a sample stand for is, on average, the sum over all
// blocks (Horvitz and Thompson, 1952), with a variance that the sample itself
// gives an unbiased estimate of: the sum of (1-p)/p² times the square of what is
// summed up. docs/sampling.md has more.

// An excess is what blocks of a sample stand for beyond themselves. The zero
// value is that of blocks that were all seen.
type excess struct {
	count   uint64 // blocks, in units of 1/countUnit
	bytes   uint64
	samples uint64 // blocks that stand for others, too

	varCount, varBytes float64 // variances of the above
}

// countUnit are the fractions in which blocks are counted.
const countUnit = 1 << 16

// excessOf is what one block stands for beyond itself.
func excessOf(size uint64, interval uint32) excess {
	if interval == 0 {
		return excess{}
	}
	// A block of no bytes is sampled as one of a byte is: bpf/headers/sample.h.
	p := -math.Expm1(-float64(max(size, 1)) / float64(interval))
	others := 1/p - 1
	variance := others / p
	return excess{
		count:    uint64(math.Round(others * countUnit)),
		bytes:    uint64(math.Round(others * float64(size))),
		samples:  1,
		varCount: variance,
		varBytes: variance * float64(size) * float64(size),
	}
}

func (x *excess) add(o excess) {
	x.count += o.count
	x.bytes += o.bytes
	x.samples += o.samples
	x.varCount += o.varCount
	x.varBytes += o.varBytes
}

// sub takes out what was added before.
func (x *excess) sub(o excess) {
	x.count -= o.count
	x.bytes -= o.bytes
	if x.samples -= o.samples; x.samples == 0 {
		*x = excess{} // without what rounding left
		return
	}
	x.varCount -= o.varCount
	x.varBytes -= o.varBytes
}

// blocks is the excess in whole blocks.
func (x *excess) blocks() uint64 { return (x.count + countUnit/2) / countUnit }

func (x *excess) countSE() uint64 { return standardError(x.varCount) }
func (x *excess) bytesSE() uint64 { return standardError(x.varBytes) }

func standardError(variance float64) uint64 {
	return uint64(math.Round(math.Sqrt(max(variance, 0))))
}

// extendLeak adds the excess to a leak's exact sums.
func (x *excess) extendLeak(l *report.Leak) {
	l.SeenBytes = l.Bytes
	if x.samples == 0 {
		return
	}
	l.Bytes += x.bytes
	l.Count += x.blocks()
	l.Estimate = &report.LeakEstimate{Samples: x.samples, BytesSE: x.bytesSE(), CountSE: x.countSE()}
}

// extendCandidate turns a candidate's sums over a sample into estimates. Growth is that
// of the site, whose sums are estimates already; what is old is a part of it.
func extendCandidate(l *report.Leak, s *site) {
	if s.extras == nil || s.extras.live.samples == 0 {
		return
	}
	if l.Kind == "old" {
		l.Bytes = s.scale(l.Bytes)
		l.Count = uint64(float64(l.Count) * float64(s.lives()) / float64(max(s.liveCount, 1)))
		l.Why += "; blocks counted in the sample"
	}
	x := &s.extras.live
	l.Estimate = &report.LeakEstimate{Samples: x.samples, BytesSE: x.bytesSE(), CountSE: x.countSE()}
}

// extras are the excesses of a site's or a process's sums.
type extras struct {
	alloc, live, freed, temp excess

	sizes stats.Histogram // of a site: blocks in units of 1/countUnit, by stats.BucketOf their size
}

// merge adds the sums of the past of another, and its live blocks if asked to.
func (x *extras) merge(o *extras, live bool) {
	x.alloc.add(o.alloc)
	x.freed.add(o.freed)
	x.temp.add(o.temp)
	if live {
		x.live.add(o.live)
	}
}

// errors are the standard errors of the sums; nil where all blocks were seen.
func (x *extras) errors() *report.Estimate {
	if x == nil || x.alloc.samples+x.live.samples+x.freed.samples == 0 {
		return nil
	}
	return &report.Estimate{
		Samples: x.alloc.samples, LiveSamples: x.live.samples,
		LiveBytesSE: x.live.bytesSE(), LiveCountSE: x.live.countSE(),
		AllocBytesSE: x.alloc.bytesSE(), AllocCountSE: x.alloc.countSE(),
		FreeCountSE: x.freed.countSE(),
	}
}

// extend adds the excesses to a process's exact sums.
func (x *extras) extend(h *report.Heap) {
	if x == nil {
		return
	}
	h.LiveBytes += x.live.bytes
	h.LiveCount += x.live.blocks()
	h.AllocBytes += x.alloc.bytes
	h.AllocCount += x.alloc.blocks()
	h.FreeCount += x.freed.blocks()
	h.TemporaryCount += x.temp.blocks()
	h.Estimate = x.errors()
}

// extendSite adds the excesses to a site's exact sums.
func (x *extras) extendSite(s *report.Site) {
	if x == nil {
		return
	}
	s.LiveBytes += x.live.bytes
	s.LiveCount += x.live.blocks()
	s.AllocBytes += x.alloc.bytes
	s.AllocCount += x.alloc.blocks()
	s.FreeCount += x.freed.blocks()
	s.TemporaryCount += x.temp.blocks()
	s.Estimate = x.errors()
}

// intervals numbers the sampling intervals of a trace: a live block has room
// for a small number only. Number 0 is that of blocks that were all seen.
type intervals struct {
	bytes [1 << intervalBits]uint32
	stray uint64 // blocks whose interval found no number
}

// sameInterval is how near, by their logarithm, intervals count as one. What a
// program says of its own sample is whole bytes, from which the interval comes
// out a little different each time.
const sameInterval = 0.01

// number returns that of an interval. One too many becomes the nearest there is.
func (v *intervals) number(bytes uint32) uint8 {
	if bytes == 0 {
		return 0
	}
	best, nearest := uint8(1), math.Inf(1)
	for i := 1; i < len(v.bytes); i++ {
		switch v.bytes[i] {
		case bytes:
			return uint8(i)
		case 0:
			v.bytes[i] = bytes
			return uint8(i)
		}
		d := math.Abs(math.Log(float64(v.bytes[i]) / float64(bytes)))
		if d < sameInterval {
			return uint8(i)
		}
		if d < nearest {
			best, nearest = uint8(i), d
		}
	}
	v.stray++
	return best
}

// excess is what a live block stands for beyond itself.
func (v *intervals) excess(b block) excess { return excessOf(b.size, v.bytes[b.interval]) }
