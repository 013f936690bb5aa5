package blocks

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/input"
)

// A Source plays a stream of inputs to an analyzer, from its beginning to its end, the same each time that it is called.
// It tells of each input after the analyzer has taken it. missing says, a sentence each, what the stream lacks.
type Source func(a *analyzer.Analyzer, told func(input.Input)) (missing []string, err error)

// Format names a format.
type Format string

// The formats.
const (
	Heaptrack Format = "heaptrack" // version 1 of heaptrack's text: one process, each allocation and free
	Firefox   Format = "firefox"   // the Firefox Profiler's processed profile, version 60
	Perfetto  Format = "perfetto"  // a Perfetto trace: heap profiles at several instants, and counters
)

// Formats lists the formats, for help texts.
func Formats() []string { return []string{string(Heaptrack), string(Firefox), string(Perfetto)} }

// IsFormat reports whether this package writes a format.
func IsFormat(name string) bool { return slices.Contains(Formats(), name) }

// Compression says how what is written is compressed.
type Compression string

// The compressions. heaptrack's readers know them by the ending of the file's name, .gz and .zst; the readers of
// firefox and perfetto know gzip by itself, and no zstd.
const (
	Plain Compression = ""
	Gzip  Compression = "gzip"
	Zstd  Compression = "zstd"
)

// CompressionOf is the one that the ending of a file's name asks for.
func CompressionOf(path string) Compression {
	switch {
	case strings.HasSuffix(path, ".gz"):
		return Gzip
	case strings.HasSuffix(path, ".zst"):
		return Zstd
	}
	return Plain
}

// Options say what to write.
type Options struct {
	Format      Format
	Config      analyzer.Config // of the stream; Observer and Sample are not used
	PID         uint32          // this process alone; 0: all. heaptrack needs it where there are several
	Compression Compression
	Version     string // of memtrace

	// Rows limits the allocations and frees in Firefox's format; 0: DefaultRows.
	Rows uint64
	// Folder is for temporary files; "": the system's.
	Folder string
}

// DefaultRows is how many allocations and frees Firefox's format holds unless told otherwise: 250 MB of JSON.
// Browsers end at 2 GB of memory, and node.js at a text of 512 MB.
const DefaultRows = 4 << 20

// ErrProcess says that it takes a PID to tell which process is meant, or that there is none of it.
var ErrProcess = errors.New("which process")

// Check says what is wrong with options.
func (o Options) Check() error {
	switch {
	case !IsFormat(string(o.Format)):
		return fmt.Errorf("format %q is none of %s", o.Format, strings.Join(Formats(), ", "))
	case o.Compression == Zstd && o.Format != Heaptrack:
		return fmt.Errorf("the readers of %s know no zstd: name a file without .zst, or with .gz", o.Format)
	}
	return nil
}

// Write plays a stream twice and writes its blocks. notes say, a sentence each, what the reader of the file has
// to know: what was left out of it, what is an estimate.
func Write(w io.Writer, play Source, o Options) (notes []string, err error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	o.Config.Sample, o.Config.Observer = nil, nil
	if o.Config.Seed == [2]uint64{} { // both times have to number sites alike
		o.Config.Seed = [2]uint64{rand.Uint64(), rand.Uint64()}
	}
	s, err := takeSurvey(play, o)
	if err != nil {
		return nil, err
	}
	out, finish, err := compressed(w, o.Compression)
	if err != nil {
		return nil, err
	}
	switch o.Format {
	case Heaptrack:
		err = writeHeaptrack(out, play, s)
	case Firefox:
		err = writeFirefox(out, play, s)
	default:
		err = writePerfetto(out, play, s)
	}
	if err != nil {
		return nil, err
	}
	return s.notes, finish()
}

// compressed returns a buffered writer to w, and what is to be called at its end.
func compressed(w io.Writer, c Compression) (*bufio.Writer, func() error, error) {
	var z io.WriteCloser
	switch c {
	case Gzip:
		z = gzip.NewWriter(w)
	case Zstd:
		var err error
		if z, err = zstd.NewWriter(w, zstd.WithEncoderConcurrency(1)); err != nil {
			return nil, nil, fmt.Errorf("start zstd: %w", err)
		}
	default:
		out := bufio.NewWriterSize(w, 1<<16)
		return out, out.Flush, nil
	}
	out := bufio.NewWriterSize(z, 1<<16)
	return out, func() error { return errors.Join(out.Flush(), z.Close()) }, nil
}
