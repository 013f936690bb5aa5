//go:build linux && !viewer

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/analyzer/suppress"
)

// A resultFile is a file that says how a job ended, in a format for other programs.
type resultFile struct {
	flag, path string
	format     render.Format  // or
	style      suppress.Style // of suppressions
	file       io.WriteCloser // nil until open
}

// resultFilesOf reads the flags that name files. used are the files that other flags name, by name.
func resultFilesOf(c *cli.Context, used map[string]string) (out []*resultFile, err error) {
	for _, o := range []resultFile{{flag: "junit", format: render.JUnit}, {flag: "sarif", format: render.SARIF}, {flag: "summary", format: render.Markdown}} {
		if o.path = c.Path(o.flag); o.path != "" {
			out = append(out, &o)
		}
	}
	for _, path := range wholes(c, "gen-suppressions") {
		o := &resultFile{flag: "gen-suppressions", path: path, style: suppress.Valgrind}
		if rest, ok := strings.CutPrefix(path, "lsan:"); ok {
			o.path, o.style = rest, suppress.LSan
		}
		out = append(out, o)
	}
	for _, o := range out {
		if o.path == "" {
			return nil, usageError("--%s needs a file", o.flag)
		}
		if other := used[o.path]; other != "" {
			return nil, usageError("--%s and --%s name the same file, %s", other, o.flag, o.path)
		}
		used[o.path] = o.flag
	}
	return out, nil
}

// open creates the files, so that a job whose result could not be written fails
// before it starts anything. They stay empty until the end: an old result must
// not pass for a new one.
func (g *job) open() error {
	if err := g.exports.check(); err != nil {
		return err
	}
	for _, o := range g.resultFiles {
		if o.path == "-" && o.style != "" {
			o.file = keptOpen{os.Stdout}
			continue
		}
		f, err := createAsCaller(o.path, os.O_RDWR|os.O_TRUNC)
		if err != nil {
			return fmt.Errorf("--%s: %w: nothing was started", o.flag, err)
		}
		o.file = f
	}
	return nil
}

type keptOpen struct{ io.Writer }

func (keptOpen) Close() error { return nil }

// finish writes all files and returns the error to end with: err, or that of
// writing. Where err came before there was a Report, the files say so.
func (g *job) finish(err error) error {
	r := g.last
	if r == nil {
		text := "it ended before there was a Report"
		if err != nil && err.Error() != "" {
			text = err.Error()
		}
		r = &report.Report{Schema: report.Schema, Final: true, Outcome: &report.Outcome{Problems: []string{text}}}
	}
	failed := g.exports.write()
	for _, o := range g.resultFiles {
		if o.file != nil {
			failed = errors.Join(failed, g.write(o, r))
		}
	}
	g.writeToGitHub(r)
	switch {
	case failed == nil:
		return err
	case err == nil:
		return failed
	}
	fmt.Fprintf(os.Stderr, "memtrace: %v\n", failed)
	return err
}

func (g *job) write(o *resultFile, r *report.Report) error {
	var text bytes.Buffer
	var err error
	if o.style != "" {
		err = o.suppressions(&text, r, g.toSuppress(r))
	} else {
		options := g.options
		options.Format = o.format
		err = render.Write(&text, r, options)
	}
	if err == nil {
		_, err = o.file.Write(text.Bytes())
	}
	if closed := o.file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("--%s %s: %w", o.flag, o.path, err)
	}
	return nil
}

// suppressions writes those of some leaks, and says which it can't.
func (o *resultFile) suppressions(w io.Writer, r *report.Report, leaks []int) error {
	left, err := suppress.Write(w, r, leaks, o.style)
	for i, what := range left {
		if i == maxUnwritten {
			what = fmt.Sprintf("and %d more, which it has in comments", len(left)-i)
		}
		fmt.Fprintf(os.Stderr, "memtrace: warning: --gen-suppressions %s leaves out: %s\n", render.Clean(o.path), render.Clean(what))
		if i == maxUnwritten {
			break
		}
	}
	return err
}

// maxUnwritten bounds the warnings about leaks that no suppression is written for.
const maxUnwritten = 10

// toSuppress are the leaks that suppressions are written for: all verdicts,
// and the candidates that made the job fail.
func (g *job) toSuppress(r *report.Report) (out []int) {
	failing := make(map[int]bool)
	if r.Outcome != nil {
		for _, rule := range r.Outcome.Rules {
			for _, i := range rule.Leaks {
				failing[i] = true
			}
		}
	}
	for i := range r.Leaks {
		if failing[i] || report.IsVerdict(r.Leaks[i].Kind) {
			out = append(out, i)
		}
	}
	return out
}

// writeToGitHub annotates the job, and appends to its summary, under GitHub
// Actions. Annotations go to stderr, which its runner reads as it does stdout:
// that is the command's, or the Report's.
func (g *job) writeToGitHub(r *report.Report) {
	if os.Getenv("GITHUB_ACTIONS") != "true" || r.Outcome == nil || g.last == nil && !g.active() {
		return
	}
	options := g.options
	options.Format = render.Annotations
	if err := render.Write(os.Stderr, r, options); err != nil {
		fmt.Fprintf(os.Stderr, "memtrace: %v\n", err)
	}
	path := os.Getenv("GITHUB_STEP_SUMMARY")
	if path == "" {
		return
	}
	f, err := createAsCaller(path, os.O_APPEND|os.O_WRONLY)
	if err == nil {
		options.Format = render.Markdown
		err = errors.Join(render.Write(f, r, options), f.Close())
	}
	if err != nil { // the exit code has the result
		fmt.Fprintf(os.Stderr, "memtrace: append to the job's summary: %v\n", err)
	}
}
