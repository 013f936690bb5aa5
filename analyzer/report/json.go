package report

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/memtrace/memtrace/analyzer"
)

// writeJSON writes r as one document of schema analyzer.Schema, ending in a
// newline. Bytes that are not UTF-8 in names become U+FFFD.
func writeJSON(w io.Writer, r *analyzer.Report, opt Options) error {
	enc := json.NewEncoder(escaped{w})
	enc.SetEscapeHTML(false) // C++ names are full of < and >
	if !opt.Compact {
		enc.SetIndent("", "  ")
	}
	if err := enc.Encode(normalised(r)); err != nil {
		return fmt.Errorf("write report as JSON: %w", err)
	}
	return nil
}

// escaped escapes what is unprintable of documents, each of which comes in one
// Write, as json.Encoder does it: a Report with all sites may take many 100 MB,
// of which there is no second copy then.
type escaped struct{ to io.Writer }

func (e escaped) Write(doc []byte) (int, error) {
	if _, err := e.to.Write(escapeUnprintable(doc)); err != nil {
		return 0, err
	}
	return len(doc), nil
}

// escapeUnprintable writes what encoding/json leaves as it is and a terminal
// may yet obey, such as C1 controls, as \u009b. Beyond ASCII, JSON has
// characters in strings only, so the document's value stays the same.
func escapeUnprintable(doc []byte) []byte {
	var out []byte
	kept := 0
	for i := 0; i < len(doc); {
		if doc[i] < 0x7f {
			i++
			continue
		}
		r, n := utf8.DecodeRune(doc[i:])
		if !unicode.IsPrint(r) {
			out = append(out, doc[kept:i]...)
			for _, unit := range utf16.Encode([]rune{r}) {
				out = appendEscapedRune(out, rune(unit))
			}
			kept = i + n
		}
		i += n
	}
	if kept == 0 {
		return doc
	}
	return append(out, doc[kept:]...)
}

// normalised copies r as far as needed to hold to the contract: no null
// array, a schema, and no number that JSON cannot express.
func normalised(r *analyzer.Report) *analyzer.Report {
	out := *r
	if out.Schema == "" {
		out.Schema = analyzer.Schema
	}
	out.Warnings = orEmpty(r.Warnings)
	out.Processes = append([]analyzer.Process{}, r.Processes...)
	for i := range out.Processes {
		out.Processes[i].Allocators = orEmpty(out.Processes[i].Allocators)
		out.Processes[i].Mappings = orEmpty(out.Processes[i].Mappings)
	}
	out.Sites = append([]analyzer.Site{}, r.Sites...)
	for i := range out.Sites {
		out.Sites[i].Stack = orEmpty(out.Sites[i].Stack)
		out.Sites[i].SizeHistogram = orEmpty(out.Sites[i].SizeHistogram)
	}
	out.Regions = append([]analyzer.Region{}, r.Regions...)
	for i := range out.Regions {
		out.Regions[i].Stack = orEmpty(out.Regions[i].Stack)
	}
	out.Leaks = append([]analyzer.Leak{}, r.Leaks...)
	for i, leak := range out.Leaks {
		out.Leaks[i].Confidence = normalShare(leak.Confidence)
	}
	if r.Outcome != nil {
		o := *r.Outcome
		o.Problems, o.Unused, o.Gone = orEmpty(o.Problems), orEmpty(o.Unused), orEmpty(o.Gone)
		o.Rules = append([]analyzer.RuleDone{}, o.Rules...)
		for i := range o.Rules {
			o.Rules[i].Leaks = orEmpty(o.Rules[i].Leaks)
		}
		out.Outcome = &o
	}
	return &out
}

// normalShare is a share that JSON can express.
func normalShare(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}

func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
