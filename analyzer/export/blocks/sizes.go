package blocks

import (
	"math"
	"math/bits"
)

// sizes counts births and ends by size, in buckets of which each is at most a quarter wider than the one before.
type sizes [4*64 + 4]uint64

func sizeBucket(size uint64) int {
	if size < 4 {
		return int(size)
	}
	length := bits.Len64(size)
	return 4*(length-2) + int(size>>(length-3)&3)
}

// largestOf is the largest size in a bucket.
func largestOf(bucket int) float64 {
	if bucket < 4 {
		return float64(bucket)
	}
	return float64(4+bucket%4+1)*math.Exp2(float64(bucket/4-1)) - 1
}

func (s *sizes) add(size uint64) { s[sizeBucket(size)]++ }

// interval is the least one of which a sample is expected to have at most so many births and ends, as a power of
// two; 0: all of them fit. A block of no bytes is none: see firefox.go.
func (s *sizes) interval(rows uint64) float64 {
	var all float64
	for bucket, n := range s {
		if bucket > 0 {
			all += float64(n)
		}
	}
	if all <= float64(rows) {
		return 0
	}
	for interval := 1.0; ; interval *= 2 {
		var expected float64
		for bucket, n := range s {
			if bucket > 0 {
				expected += float64(n) * chance(largestOf(bucket), interval)
			}
		}
		if expected <= float64(rows) || interval > math.MaxUint32 {
			return interval
		}
	}
}

// chance is the probability that a sample has a block: docs/sampling.md.
func chance(size, interval float64) float64 { return -math.Expm1(-size / interval) }

// isSampled says whether a block is in a sample: the same at its birth and its end.
func isSampled(h *happening, interval float64) bool {
	x := h.Addr*0x9e3779b97f4a7c15 ^ h.Since*0xd6e8feb86659fd93 ^ uint64(h.PID)
	for range 2 {
		x ^= x >> 32
		x *= 0xd6e8feb86659fd93
	}
	x ^= x >> 32
	return float64(x>>11)/(1<<53) < chance(float64(h.Size), interval)
}
