//go:build linux && !viewer

package reach

import (
	"cmp"
	"slices"
)

// A zone is memory from start up to, not including, end.
type zone struct{ start, end uint64 }

// zones are ascending and apart from each other.
type zones []zone

// joined makes zones of some in any order.
func joined(all []zone) zones {
	all = slices.DeleteFunc(all, func(z zone) bool { return z.end <= z.start })
	slices.SortFunc(all, func(a, b zone) int { return cmp.Compare(a.start, b.start) })
	out := all[:0]
	for _, z := range all {
		if n := len(out); n > 0 && z.start <= out[n-1].end {
			out[n-1].end = max(out[n-1].end, z.end)
			continue
		}
		out = append(out, z)
	}
	return out
}

// from returns the zones that do not end before an address, or at it.
func (all zones) from(at uint64) zones {
	first, _ := slices.BinarySearchFunc(all, at, func(z zone, at uint64) int { return cmp.Compare(z.end, at+1) })
	return all[first:]
}

// has reports whether an address lies in one of the zones.
func (all zones) has(at uint64) bool {
	rest := all.from(at)
	return len(rest) > 0 && rest[0].start <= at
}

// bytes is how much of the memory from at to end lies in the zones.
func (all zones) bytes(at, end uint64) (n uint64) {
	for _, z := range all.from(at) {
		if z.start >= end {
			break
		}
		n += min(z.end, end) - max(z.start, at)
	}
	return n
}

// without returns what of the zones is in none of the others.
func (all zones) without(others zones) (out zones) {
	for _, z := range all {
		for _, o := range others.from(z.start) {
			if o.start >= z.end {
				break
			}
			if o.start > z.start {
				out = append(out, zone{z.start, o.start})
			}
			z.start = max(z.start, o.end)
		}
		if z.start < z.end {
			out = append(out, z)
		}
	}
	return out
}
