//go:build linux && !viewer

package reach

import (
	"math/bits"
	"sync/atomic"
)

// A bitmap has a bit a block. Its methods may be called concurrently where
// they say so.
type bitmap []uint64

func newBitmap(a *area, n int) (bitmap, error) { return table[uint64](a, uint64(n)/64+1) }

// has may be called concurrently with add and drop.
func (b bitmap) has(i uint32) bool {
	return atomic.LoadUint64(&b[i>>6])>>(i&63)&1 != 0
}

// add sets a bit and reports whether it was clear; concurrently.
func (b bitmap) add(i uint32) bool {
	mask := uint64(1) << (i & 63)
	return atomic.OrUint64(&b[i>>6], mask)&mask == 0
}

// drop clears a bit and reports whether it was set; concurrently.
func (b bitmap) drop(i uint32) bool {
	mask := uint64(1) << (i & 63)
	return atomic.AndUint64(&b[i>>6], ^mask)&mask != 0
}

// word returns n ≤ 64 bits from bit i on; concurrently.
func (b bitmap) word(i, n uint32) uint64 {
	at, shift := i>>6, i&63
	v := atomic.LoadUint64(&b[at]) >> shift
	if shift+n > 64 {
		v |= atomic.LoadUint64(&b[at+1]) << (64 - shift)
	}
	if n < 64 {
		v &= 1<<n - 1
	}
	return v
}

func (b bitmap) count() (n int) {
	for _, w := range b {
		n += bits.OnesCount64(w)
	}
	return n
}
