//go:build linux && !viewer

package reach

// Agree returns the leaks that both of two scans found: the same block, by
// address, size and site, with the milder of the two kinds. Nothing makes a
// leaked block reachable again, so a true leak is in both; a block whose only
// pointer was being moved, or stood in a register, in one of them is rarely so
// in the other too. The caller must see to it that the blocks are the same
// ones, rather than new ones at the same place. Both are sorted by address.
func Agree(a, b []Leak) (out []Leak) {
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0].Addr < b[0].Addr:
			a = a[1:]
		case a[0].Addr > b[0].Addr:
			b = b[1:]
		default:
			if a[0].Size == b[0].Size && a[0].Site == b[0].Site {
				leak := b[0]
				leak.Kind = min(a[0].Kind, leak.Kind)
				out = append(out, leak)
			}
			a, b = a[1:], b[1:]
		}
	}
	return out
}
