package render

import (
	"slices"

	"github.com/memtrace/memtrace/analyzer/report"
)

// addGoHeap says what a Go program's own memory profile holds, and by which samples.
func addGoHeap(p *page, g *report.GoHeap) {
	switch {
	case g == nil:
		return
	case g.Problem != "":
		p.prose(warning, "  Go    ", "not known: "+clean(g.Problem))
		return
	}
	basis := "Go's own samples, one per " + size(g.Rate)
	if g.Rate <= 1 {
		basis = "Go's own profile, every block"
	}
	p.flow(plain, "  Go    ", []string{
		size(g.LiveBytes) + plusMinus(g.Estimate.LiveBytes(), size) + " live in " + counted(g.LiveCount, "block", "blocks") + plusMinus(g.Estimate.LiveCount(), count),
		"grown by " + signed(g.GrowthBytes, size),
		"allocated " + size(g.AllocBytes) + plusMinus(g.Estimate.AllocBytes(), size) + " since its start",
	}, ", ")
	p.flow(dim, "        ", goBasis(g, basis), ", ")
}

func goBasis(g *report.GoHeap, basis string) []string {
	out := []string{basis}
	if g.Rate > 1 {
		out[0] = "estimate: " + basis
	}
	if g.BeforeGC {
		out = append(out, "before its first garbage collection")
	} else {
		out = append(out, "as of its last garbage collection")
	}
	if g.Unsettled {
		out = append(out, "read while Go was changing them")
	}
	if g.Cut {
		out = append(out, "the oldest ones left out, as there are too many")
	}
	return append(out, clean(g.Version))
}

// estimated reports whether figures of any site are estimates.
func estimated(r *report.Report) bool {
	return r.Sampling != nil || slices.ContainsFunc(r.Sites, func(s report.Site) bool { return s.Basis != "" && s.Estimate != nil })
}
