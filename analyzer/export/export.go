package export

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/memtrace/memtrace/analyzer/report"
)

// Format names a format.
type Format string

// The formats.
const (
	Pprof      Format = "pprof"      // profile.proto, gzipped
	Folded     Format = "folded"     // a stack a line, and its figure
	Flamegraph Format = "flamegraph" // SVG
	HTML       Format = "html"       // a page with all kinds
	Speedscope Format = "speedscope" // JSON
	CSV        Format = "csv"        // a row a site
	Parquet    Format = "parquet"    // a row a site, with typed columns
	DHAT       Format = "dhat"       // JSON of Valgrind's DHAT, version 2
	Massif     Format = "massif"     // the file of Valgrind's Massif
)

// formats says of each how it is written, whether it holds one kind only, and
// whether it can show the difference of two Reports.
var formats = []struct {
	format  Format
	oneKind bool
	write   func(io.Writer, *report.Report, Options) error
	diff    func(w io.Writer, before, after *report.Report, opt Options) error
}{
	{Pprof, false, writePprof, nil},
	{Folded, true, writeFolded, diffFolded},
	{Flamegraph, true, writeFlamegraph, diffFlamegraph},
	{HTML, false, writePage, nil},
	{Speedscope, false, writeSpeedscope, nil},
	{CSV, false, writeCSV, nil},
	{Parquet, false, writeParquet, nil},
	{DHAT, true, writeDHAT, nil},
	{Massif, true, writeMassif, nil},
}

// Formats lists the formats, for help texts.
func Formats() []string {
	var out []string
	for _, f := range formats {
		out = append(out, string(f.format))
	}
	return out
}

// Binary reports whether the format is not text, and so nothing for a terminal.
func (f Format) Binary() bool { return f == Pprof || f == Parquet }

// Options say how to write a Report.
type Options struct {
	Format   Format
	Kind     Kind // empty: Live. A format with several shows this one first
	Inverted bool // from the allocating function to its callers
	Version  string
	Made     time.Time // when the Report was made; zero: not known
}

// Check says what is wrong with options: the format, the kind, or both together.
func (o Options) Check(diff bool) error {
	i := slices.Index(Formats(), string(o.Format))
	switch {
	case i < 0:
		return fmt.Errorf("format %q is none of %s", o.Format, strings.Join(Formats(), ", "))
	case o.Kind != "" && o.Kind.index() < 0:
		return fmt.Errorf("kind %q is none of %s", o.Kind, strings.Join(Kinds(), ", "))
	case o.Inverted && o.Format != Flamegraph && o.Format != HTML && o.Format != Folded:
		return fmt.Errorf("inverted is for flamegraph, html and folded, not for %s", o.Format)
	case o.Format == DHAT && o.Kind != "" && o.Kind.counts(), o.Format == Massif && o.Kind != "" && o.Kind.counts():
		return fmt.Errorf("%s shows bytes: %s is a count", o.Format, o.Kind)
	case (o.Format == CSV || o.Format == Parquet) && o.Kind != "":
		return fmt.Errorf("%s has all kinds, a column each: leave the kind out", o.Format)
	case diff && formats[i].diff == nil:
		return fmt.Errorf("%s cannot show the difference of two Reports: use flamegraph or folded", o.Format)
	}
	return nil
}

// kind is the kind to show, or to show first.
func (o Options) kind() Kind {
	if o.Kind == "" {
		return Live
	}
	return o.Kind
}

// Write writes r in opt.Format.
func Write(w io.Writer, r *report.Report, opt Options) error {
	if err := opt.Check(false); err != nil {
		return err
	}
	return formats[slices.Index(Formats(), string(opt.Format))].write(w, r, opt)
}

// WriteDiff writes what changed from one Report to another.
func WriteDiff(w io.Writer, before, after *report.Report, opt Options) error {
	if err := opt.Check(true); err != nil {
		return err
	}
	return formats[slices.Index(Formats(), string(opt.Format))].diff(w, before, after, opt)
}

// Empty reports whether an export in one kind shows nothing, and names the kinds that
// would show something.
func Empty(r *report.Report, opt Options) (have string, empty bool) {
	i := slices.Index(Formats(), string(opt.Format))
	stacks := stacksOf(r)
	if i < 0 || !formats[i].oneKind || total(stacks, opt.kind()).figure(opt.kind()) > 0 {
		return "", false
	}
	var names []string
	for _, k := range kinds {
		if total(stacks, k.kind).figure(k.kind) > 0 {
			names = append(names, string(k.kind))
		}
	}
	if names == nil {
		names = []string{"none"}
	}
	return strings.Join(names, ", "), true
}
