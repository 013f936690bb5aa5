package export

import (
	"math"

	"github.com/memtrace/memtrace/analyzer/compare"
	"github.com/memtrace/memtrace/analyzer/report"
)

// Figure is a kind as two Reports are compared by it. The kind must be one of Kinds.
func (k Kind) Figure() compare.Figure {
	about := kinds[k.index()]
	f := compare.Figure{Kind: string(k), Title: about.title, Thing: about.what, Bytes: !k.counts(), Count: hasCount(k)}
	switch k {
	case Peak, Allocated, Freed, Temporary, Faults:
		f.Sums = true
	}
	return f
}

// Measure finds what each site of a Report has of a kind. name is that of its file.
// What a process has beyond the sites that the Report lists is an entry, too, where its sums tell.
func Measure(name string, r *report.Report, k Kind) compare.Side {
	s := compare.Side{Name: name, Report: r, Omitted: omitted(r, k), Unknown: unknown(r, k)}
	stacks, leaks := stacksOf(r), leakErrors(r)
	for i := range stacks {
		if stacks[i].mapping != (k == Mapped) {
			continue
		}
		w := stacks[i].weights[k.index()]
		e := compare.Entry{Bytes: compare.Measured{Value: w.bytes}, Count: compare.Measured{Value: w.count}}
		if stacks[i].mapping {
			e.Site = mappingSite(&r.Regions[i-len(r.Sites)])
		} else {
			e.Site = &r.Sites[i]
			e.Bytes.SE, e.Count.SE = standardErrors(e.Site, leaks[e.Site.ID], k)
		}
		e.Process = e.Site.Process
		if !hasCount(k) {
			e.Count = compare.Measured{}
		}
		s.Entries = append(s.Entries, e)
	}
	if s.Omitted > 0 {
		rest, known := unlisted(r, s.Entries, k)
		s.Entries, s.Partial = append(s.Entries, rest...), !known
	}
	return s
}

// mappingSite has of a site of mappings what names it.
func mappingSite(g *report.Region) *report.Site {
	return &report.Site{ID: g.ID, Process: g.Process, PID: g.PID, Function: g.Function, Stack: g.Stack, Truncated: g.Truncated}
}

// omitted is how many sites a Report leaves out that may have something of a kind: those
// of leaks and candidates are always listed.
func omitted(r *report.Report, k Kind) int {
	switch k {
	case Mapped:
		return r.RegionsMore
	case Leaked, Growing:
		return 0
	}
	return r.SitesMore
}

// unknown says why a Report knows nothing of a kind; "" where it does.
func unknown(r *report.Report, k Kind) string {
	checked, correlated := len(r.Processes) == 0, len(r.Processes) == 0
	for i := range r.Processes {
		p := &r.Processes[i]
		checked = checked || p.LeakCheck != nil || p.HeapWalk != nil
		correlated = correlated || p.Heap.CorrelatedNS > 0
	}
	switch {
	case k == Leaked && !checked:
		return "it was not checked for leaks (--leaks)"
	case (k == Resident || k == Untouched || k == Swapped) && !correlated:
		return "where the pages of its blocks are was not read"
	case k == Faults && (r.Tracer.Faults == "" || r.Tracer.Faults == "off"):
		return "page faults were not traced (--faults)"
	case r.Tracer.Attach == report.NotTraced && k != Live && k != Leaked && k != Resident && k != Untouched && k != Swapped:
		return "it was read from outside, without a trace"
	}
	return ""
}

// leakErrors are the standard errors of the verdicts of each site.
func leakErrors(r *report.Report) map[int]compare.Entry {
	out := make(map[int]compare.Entry)
	for i := range r.Leaks {
		l := &r.Leaks[i]
		if l.Estimate == nil || !report.IsVerdict(l.Kind) {
			continue
		}
		e := out[l.Site]
		e.Bytes.SE = root(square(e.Bytes.SE) + square(l.Estimate.BytesSE))
		e.Count.SE = root(square(e.Count.SE) + square(l.Estimate.CountSE))
		out[l.Site] = e
	}
	return out
}

func square(v uint64) float64 { return float64(v) * float64(v) }

// root is the error that a variance stands for; there is none below 0.
func root(variance float64) uint64 {
	return uint64(math.Round(min(math.Sqrt(max(variance, 0)), math.MaxInt64)))
}

// standardErrors are those of what a site has of a kind; 0 where they are not known.
func standardErrors(s *report.Site, leaks compare.Entry, k Kind) (bytes, count uint64) {
	if k == Leaked {
		return leaks.Bytes.SE, leaks.Count.SE
	}
	if s.Estimate == nil {
		return 0, 0
	}
	return estimated(s.Estimate, k)
}

func estimated(e *report.Estimate, k Kind) (bytes, count uint64) {
	switch k {
	case Live, Growing:
		return e.LiveBytesSE, e.LiveCountSE
	case Allocated:
		return e.AllocBytesSE, e.AllocCountSE
	case Freed:
		return 0, e.FreeCountSE
	}
	return 0, 0
}

// unlisted is what the processes of a Report have beyond the sites that it lists. Of
// a peak, page faults and mappings there are no sums that would tell.
func unlisted(r *report.Report, listed []compare.Entry, k Kind) (out []compare.Entry, known bool) {
	if _, known := heapOf(&report.Heap{}, k); !known {
		return nil, false
	}
	held := make(map[int]compare.Entry)
	for i := range listed {
		h := held[listed[i].Process]
		h.Bytes.Value, h.Count.Value = add(h.Bytes.Value, listed[i].Bytes.Value), add(h.Count.Value, listed[i].Count.Value)
		h.Bytes.SE = root(square(h.Bytes.SE) + square(listed[i].Bytes.SE))
		h.Count.SE = root(square(h.Count.SE) + square(listed[i].Count.SE))
		held[listed[i].Process] = h
	}
	for i := range r.Processes {
		p := &r.Processes[i]
		all, _ := heapOf(&p.Heap, k)
		e, h := compare.Entry{Process: p.ID}, held[p.ID]
		e.Bytes.Value, e.Count.Value = less(all.bytes, h.Bytes.Value), less(all.count, h.Count.Value)
		if p.Heap.Estimate != nil {
			bytes, count := estimated(p.Heap.Estimate, k)
			e.Bytes.SE, e.Count.SE = root(square(bytes)-square(h.Bytes.SE)), root(square(count)-square(h.Count.SE))
		}
		out = append(out, e)
	}
	return out, true
}

// heapOf is what a process has of a kind in all.
func heapOf(h *report.Heap, k Kind) (w weight, known bool) {
	switch k {
	case Live:
		return weight{h.LiveBytes, h.LiveCount}, true
	case Allocated:
		return weight{h.AllocBytes, h.AllocCount}, true
	case Freed:
		return weight{less(h.AllocBytes, h.LiveBytes), h.FreeCount}, true
	case Temporary:
		return weight{count: h.TemporaryCount}, true
	case Resident:
		return weight{bytes: h.ResidentBytes}, true
	case Untouched:
		return weight{bytes: h.UntouchedBytes}, true
	case Swapped:
		return weight{bytes: h.SwappedBytes}, true
	}
	return weight{}, false
}
