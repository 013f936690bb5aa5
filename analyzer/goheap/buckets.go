//go:build linux && !viewer

package goheap

import (
	"errors"
	"fmt"
)

const (
	// maxBuckets bounds the walk. Each is one size of one call stack.
	maxBuckets = 1 << 17
	// maxDepth is Go's own limit (GODEBUG profstackdepth; runtime/mprof.go, maxProfStackDepth).
	maxDepth = 1024

	bucketHeader = 48 // bytes of struct bucket: next, allnext, typ, hash, size, nstk
	recordBytes  = 128
	memProfile   = 1 // bucketType
)

// errBuckets says that the list is not the runtime's.
var errBuckets = errors.New("its list of samples is not as Go's runtime writes it")

// A cycle is a memRecordCycle (runtime/mprof.go).
type cycle struct{ allocs, frees, allocBytes, freeBytes uint64 }

func (c cycle) plus(o cycle) cycle {
	return cycle{c.allocs + o.allocs, c.frees + o.frees, c.allocBytes + o.allocBytes, c.freeBytes + o.freeBytes}
}

// inUse is what was not freed; nothing where the counts are torn.
func (c cycle) inUse() counts {
	if c.frees >= c.allocs || c.freeBytes >= c.allocBytes {
		return counts{}
	}
	return counts{c.allocs - c.frees, c.allocBytes - c.freeBytes}
}

// A bucket is what was sampled of one size by one call stack.
type bucket struct {
	size   uint64
	stack  []uint64 // return addresses, innermost first
	active cycle
	future [3]cycle
}

// A walk is the runtime's list of buckets, read once.
type walk struct {
	buckets []bucket
	cycle   uint32 // mProfCycle
	rate    int64
	cut     bool // there are more buckets than were read
}

// walk reads the list, newest bucket first.
func (r *Reader) walk(mem *pages) (w walk, err error) {
	head, ok := mem.u64(r.at.buckets + r.bias())
	cycle, ok1 := mem.u32(r.at.cycle + r.bias())
	rate, ok2 := mem.u64(r.at.rate + r.bias())
	if !ok || !ok1 || !ok2 {
		return w, errors.New("the variables of its memory profile could not be read")
	}
	w.cycle, w.rate = cycle, int64(rate)
	seen := make(map[uint64]bool)
	for at := head; at != 0; {
		if seen[at] {
			return w, fmt.Errorf("%w: it goes in circles", errBuckets)
		}
		if seen[at] = true; len(w.buckets) >= maxBuckets {
			w.cut = true
			break
		}
		b, next, err := readBucket(mem, at)
		if mem.spent {
			w.cut = true
			break
		}
		if err != nil {
			return w, err
		}
		w.buckets, at = append(w.buckets, b), next
	}
	return w, nil
}

func readBucket(mem *pages, at uint64) (b bucket, next uint64, err error) {
	var h [bucketHeader]byte
	if !mem.read(h[:], at) {
		return b, 0, fmt.Errorf("%w: it leads to where nothing can be read", errBuckets)
	}
	depth := le64(h[40:])
	if le64(h[16:]) != memProfile || depth == 0 || depth > maxDepth {
		return b, 0, errBuckets
	}
	rest := make([]byte, depth*8+recordBytes)
	if !mem.read(rest, at+bucketHeader) {
		return b, 0, fmt.Errorf("%w: it leads to where nothing can be read", errBuckets)
	}
	b = bucket{size: le64(h[32:]), stack: make([]uint64, depth)}
	for i := range b.stack {
		b.stack[i] = le64(rest[8*i:])
	}
	rest = rest[8*depth:]
	b.active = readCycle(rest)
	for i := range b.future {
		b.future[i] = readCycle(rest[32*(i+1):])
	}
	return b, le64(h[8:]), nil
}

func readCycle(b []byte) cycle { return cycle{le64(b), le64(b[8:]), le64(b[16:]), le64(b[24:])} }

// published are the counts of each bucket as runtime.MemProfile gives them: what was active, with the cycle that is due. Where
// that is nothing at all, no garbage collection has ended yet, and all cycles count.
func (w *walk) published() (out []cycle, beforeGC bool) {
	out, beforeGC = make([]cycle, len(w.buckets)), true
	due := w.cycle >> 1 % 3 // its lowest bit says whether it was flushed: then it is zero
	for i := range w.buckets {
		out[i] = w.buckets[i].active.plus(w.buckets[i].future[due])
		beforeGC = beforeGC && out[i].allocs == 0 && out[i].frees == 0
	}
	for i := 0; beforeGC && i < len(out); i++ {
		for c := range w.buckets[i].future {
			if uint32(c) != due {
				out[i] = out[i].plus(w.buckets[i].future[c])
			}
		}
	}
	return out, beforeGC
}
