package render

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/memtrace/memtrace/analyzer/report"
)

// writeJSON writes r as one document of schema report.Schema, ending in a
// newline. Bytes that are not UTF-8 in names of processes become \xff, others U+FFFD.
//
// A Report with all sites may take many 100 MB. So they are encoded and written
// one by one, in their place in the rest of the document.
func writeJSON(w io.Writer, r *report.Report, opt Options) error {
	d := document{to: bufio.NewWriterSize(w, 1<<20), compact: opt.Compact}
	if err := d.write(r); err != nil {
		return fmt.Errorf("write report as JSON: %w", err)
	}
	return nil
}

// A document is a Report that is being written.
type document struct {
	to      *bufio.Writer
	compact bool
	part    bytes.Buffer             // the latest part, as encoding/json has it
	frames  map[*report.Frame][]byte // see frame
}

func (d *document) write(r *report.Report) error {
	text, err := d.encode("", normalised(r))
	if err != nil {
		return err
	}
	before, after, err := cutArray(append(bytes.Clone(text), '\n'), `"sites":`)
	if err != nil {
		return err
	}
	d.put(before)
	if err := d.writeSites(r.Sites); err != nil {
		return err
	}
	d.put(after)
	return d.to.Flush()
}

// cutArray cuts a document at the first array of a key, which must be empty: before ends where
// the array begins. In a string the quotes of the key would be escaped.
func cutArray(text []byte, key string) (before, after []byte, err error) {
	start := bytes.Index(text, []byte(key))
	open := bytes.IndexByte(text[max(start, 0):], '[')
	if start < 0 || open < 0 || !bytes.HasPrefix(text[start+open:], []byte("[]")) {
		return nil, nil, fmt.Errorf("the document has no empty %s", key)
	}
	return text[:start+open], text[start+open+2:], nil
}

// encode returns the text of v, valid until the next call; its lines after the
// first begin with prefix.
func (d *document) encode(prefix string, v any) ([]byte, error) {
	d.part.Reset()
	enc := json.NewEncoder(&d.part)
	enc.SetEscapeHTML(false) // C++ names are full of < and >
	if !d.compact {
		enc.SetIndent(prefix, "  ")
	}
	err := enc.Encode(v)
	return bytes.TrimSuffix(d.part.Bytes(), []byte{'\n'}), err
}

// put writes a part; Flush returns the first error of all.
func (d *document) put(part []byte) { d.to.Write(escapeUnprintable(part)) }

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
func normalised(r *report.Report) *report.Report {
	out := *r
	if out.Schema == "" {
		out.Schema = report.Schema
	}
	out.Warnings = orEmpty(r.Warnings)
	out.Processes = append([]report.Process{}, r.Processes...)
	for i := range out.Processes {
		out.Processes[i].Comm, out.Processes[i].Exe = ValidText(out.Processes[i].Comm), ValidText(out.Processes[i].Exe)
		out.Processes[i].Allocators = orEmpty(out.Processes[i].Allocators)
		out.Processes[i].Mappings = orEmpty(out.Processes[i].Mappings)
	}
	out.Sites = []report.Site{} // see writeSites
	out.Regions = append([]report.Region{}, r.Regions...)
	for i := range out.Regions {
		out.Regions[i].Stack = orEmpty(out.Regions[i].Stack)
	}
	if r.Touched != nil {
		f := *r.Touched
		f.Sites = append([]report.TouchedSite{}, f.Sites...)
		for i := range f.Sites {
			f.Sites[i].Stack = orEmpty(f.Sites[i].Stack)
		}
		out.Touched = &f
	}
	out.Leaks = append([]report.Leak{}, r.Leaks...)
	for i, leak := range out.Leaks {
		out.Leaks[i].Confidence = normalShare(leak.Confidence)
	}
	if r.Outcome != nil {
		o := *r.Outcome
		o.Problems, o.Unused, o.Gone = orEmpty(o.Problems), orEmpty(o.Unused), orEmpty(o.Gone)
		o.Rules = append([]report.RuleDone{}, o.Rules...)
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
