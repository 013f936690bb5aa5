package gate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/memtrace/memtrace/analyzer/report"
)

// Baseline holds the leaks of an earlier Report.
type Baseline struct {
	leaks []report.OldLeak
	index map[string]int
}

// maxBaseline bounds how much is read of a baseline, in bytes.
const maxBaseline = 1 << 30

// ReadBaseline reads a Report as memtrace writes it in JSON. Of several, one a
// line as a trace prints them, the last counts.
func ReadBaseline(r io.Reader) (*Baseline, error) {
	last, found := report.Report{}, false
	for docs := json.NewDecoder(io.LimitReader(r, maxBaseline)); ; {
		var doc report.Report
		err := docs.Decode(&doc)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("it is no Report of memtrace in JSON (write one with --format json): %w", err)
		}
		if doc.Schema != report.Schema {
			return nil, fmt.Errorf("its schema is %.40q, not %s", doc.Schema, report.Schema)
		}
		if slices.ContainsFunc(doc.Sites, func(s report.Site) bool { return slices.Contains(s.Stack, nil) }) {
			return nil, errors.New("a frame of a site's stack is null")
		}
		last, found = doc, true
	}
	if !found {
		return nil, errors.New("it is empty")
	}
	return newBaseline(&last), nil
}

func newBaseline(r *report.Report) *Baseline {
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
