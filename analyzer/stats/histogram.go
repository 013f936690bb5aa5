package stats

import "math/bits"

// A Histogram counts values in buckets of a logarithmic scale with four
// buckets an octave, so that a bucket's bounds are at most 25 % apart. It
// stores only the span of buckets in use: a site that allocates blocks of one
// size pays for one counter.
//
// The buckets are 0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, …:
// each is named by the largest value in it, which is what BucketMax returns.
type Histogram struct {
	n     []uint64 // counts of buckets lo, lo+1, …
	lo    uint8
	began uint8 // bucket of the first value
}

// buckets is the number of buckets of the scale: 0, four values below the
// first full octave, then four for each of the 62 octaves that remain.
const buckets = 1 + 4 + 62*4

// BucketOf returns the bucket that value v falls into.
func BucketOf(v uint64) int {
	if v == 0 {
		return 0
	}
	u := v - 1 // buckets are closed above: 64 belongs to (56, 64]
	if u < 4 {
		return 1 + int(u)
	}
	octave := bits.Len64(u) - 1
	return 5 + (octave-2)*4 + int(u>>(octave-2)&3)
}

// BucketMax returns the largest value that falls into bucket b.
func BucketMax(b int) uint64 {
	if b < 5 {
		return uint64(max(b, 0))
	}
	octave, quarter := (b-5)/4, (b-5)%4
	if b >= buckets-1 {
		return 1<<64 - 1
	}
	return uint64(5+quarter) << octave
}

// Lifetimes and ages are counted in units of 1,024 ns, so that the scale
// begins at about a microsecond.
const durationShift = 10

// DurationBucket returns the bucket of a duration in ns.
func DurationBucket(ns uint64) int { return BucketOf(ns >> durationShift) }

// DurationMax returns the longest duration, in ns, that falls into bucket b.
func DurationMax(b int) uint64 {
	units := BucketMax(b)
	if units >= 1<<(64-durationShift)-1 {
		return 1<<64 - 1
	}
	return (units+1)<<durationShift - 1
}

// Add counts n more in bucket b.
func (h *Histogram) Add(b int, n uint64) {
	if i := uint(b - int(h.lo)); i < uint(len(h.n)) {
		h.n[i] += n
		return
	}
	h.widen(b)
	h.n[b-int(h.lo)] += n
}

// At returns the count of bucket b.
func (h *Histogram) At(b int) uint64 {
	if i := b - int(h.lo); i >= 0 && i < len(h.n) {
		return h.n[i]
	}
	return 0
}

// First returns the count of the lowest bucket in use.
func (h *Histogram) First() uint64 {
	if len(h.n) == 0 {
		return 0
	}
	return h.n[0]
}

// Began returns the bucket of the first value that was counted; 0 where there is none.
func (h *Histogram) Began() uint8 { return h.began }

// widen makes the span include bucket b.
func (h *Histogram) widen(b int) {
	switch {
	case len(h.n) == 0:
		h.lo, h.began = uint8(b), uint8(b)
		h.n = append(h.n[:0], 0)
	case b < int(h.lo):
		wider := make([]uint64, len(h.n)+int(h.lo)-b)
		copy(wider[int(h.lo)-b:], h.n)
		h.n, h.lo = wider, uint8(b)
	default:
		for len(h.n) <= b-int(h.lo) {
			h.n = append(h.n, 0)
		}
	}
}

// Reset empties the histogram and keeps its memory for the next pass.
func (h *Histogram) Reset() { h.n = h.n[:0] }

// Total is the sum of all buckets.
func (h *Histogram) Total() uint64 {
	var sum uint64
	for _, n := range h.n {
		sum += n
	}
	return sum
}

// Span is the number of buckets from the lowest to the highest in use.
func (h *Histogram) Span() int { return len(h.n) }

// All yields each bucket that is not empty with its count, in ascending order.
func (h *Histogram) All(yield func(bucket int, n uint64) bool) {
	for i, n := range h.n {
		if n != 0 && !yield(int(h.lo)+i, n) {
			return
		}
	}
}
