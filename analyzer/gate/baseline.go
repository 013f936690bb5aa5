package gate

import "github.com/memtrace/memtrace/analyzer/report"

// Baseline holds the leaks of an earlier Report.
type Baseline struct {
	leaks []report.OldLeak
	index map[string]int
}

// NewBaseline takes the leaks of an earlier Report.
func NewBaseline(r *report.Report) *Baseline {
	r.Identify() // also for Reports from before there were fingerprints
	b := &Baseline{index: make(map[string]int)}
	for i := range r.Leaks {
		l := &r.Leaks[i]
		k, ok := b.index[l.Fingerprint]
		if !ok {
			k = len(b.leaks)
			b.index[l.Fingerprint] = k
			b.leaks = append(b.leaks, report.OldLeak{Fingerprint: l.Fingerprint, Kind: l.Kind})
			if site := r.Site(l.Site); site != nil {
				b.leaks[k].Function = site.Function
			}
		}
		b.leaks[k].Bytes += l.Bytes
		b.leaks[k].Count += l.Count
	}
	return b
}

// mark marks the leaks of a Report that the baseline has, and lists those of
// the baseline that neither it nor what was suppressed has.
func (b *Baseline) mark(r *report.Report, suppressed []report.Leak, out *report.Outcome) {
	if b == nil {
		return
	}
	seen := make([]bool, len(b.leaks))
	for i := range r.Leaks {
		l := &r.Leaks[i]
		if k, ok := b.index[l.Fingerprint]; ok {
			l.Known, seen[k] = true, true
			out.Known.Add(l)
		}
	}
	for i := range suppressed {
		if k, ok := b.index[suppressed[i].Fingerprint]; ok {
			seen[k] = true
		}
	}
	for k, was := range seen {
		if !was {
			out.Gone = append(out.Gone, b.leaks[k])
		}
	}
}
