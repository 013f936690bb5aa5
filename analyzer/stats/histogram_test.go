package stats

import "testing"

// TestBuckets checks the scale: each value lies in a bucket that ends at or
// above it, and the bucket before ends below it, by at most a quarter.
func TestBuckets(t *testing.T) {
	values := []uint64{0, 1<<64 - 1, 1<<64 - 2, 1 << 63, 1<<63 + 1}
	for v := uint64(1); v < 1<<40; v += 1 + v/7 {
		values = append(values, v, v-1, v+1)
	}
	for _, v := range values {
		b := BucketOf(v)
		if BucketMax(b) < v || b >= buckets {
			t.Errorf("%d falls into bucket %d, which ends at %d", v, b, BucketMax(b))
		}
		if b > 0 && BucketMax(b-1) >= v {
			t.Errorf("%d falls into bucket %d, but the one before ends at %d", v, b, BucketMax(b-1))
		}
	}
	for v, want := range map[uint64]uint64{0: 0, 1: 1, 4: 4, 5: 5, 8: 8, 9: 10, 33: 40, 64: 64, 65: 80, 100: 112, 4096: 4096, 4097: 5120} {
		if got := BucketMax(BucketOf(v)); got != want {
			t.Errorf("%d is counted under %d, want %d", v, got, want)
		}
	}
}
