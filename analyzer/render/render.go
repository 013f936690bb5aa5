package render

import (
	"fmt"
	"io"

	"github.com/memtrace/memtrace/analyzer/report"
)

// Format names an output format.
type Format string

// The formats that Write knows.
const (
	Text Format = "text"
	JSON Format = "json"

	// For other programs, from the last Report of a trace.
	JUnit       Format = "junit"       // XML; a test case for each condition
	SARIF       Format = "sarif"       // 2.1.0
	Markdown    Format = "markdown"    // a summary of at most 64 KiB
	Annotations Format = "annotations" // GitHub Actions' workflow commands
)

// Formats lists the formats of --format, for help texts.
func Formats() []string { return []string{string(Text), string(JSON)} }

// Options say how to write a Report. The zero value writes text of unlimited
// width, without stacks and without colour.
type Options struct {
	Format Format // empty means Text

	Width  int  // text: columns of the terminal; 0 means no limit
	Top    int  // text: sites in the table; 0 means all that the Report holds
	Held   bool // text: no sites that hold nothing, if others hold something
	Stacks int  // text: sites of the table whose stacks follow; 0 means all of them
	Frames int  // text: frames per stack; 0 means no stacks, less than 0 all frames
	Color  bool // text: highlight by ANSI escape sequences
	Made   bool // text: begin with when, where and by what it was made

	Compact bool // json: one line per Report instead of an indented document

	Root     string // sarif, markdown, annotations: absolute; files below are named relative to it
	Version  string // sarif: memtrace's own
	Baseline bool   // sarif: there was a baseline, so that leaks it does not know are new
}

// Write writes r in opt.Format. It returns an error for an unknown format and
// whatever error w returned.
func Write(w io.Writer, r *report.Report, opt Options) error {
	switch opt.Format {
	case Text, "":
		return writeText(w, r, opt)
	case JSON:
		return writeJSON(w, r, opt)
	case JUnit:
		return writeJUnit(w, r, opt)
	case SARIF:
		return writeSARIF(w, r, opt)
	case Markdown:
		return writeMarkdown(w, r, opt)
	case Annotations:
		return writeAnnotations(w, r, opt)
	}
	return fmt.Errorf("write report: unknown format %q (have %v)", opt.Format, Formats())
}
