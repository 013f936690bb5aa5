package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/memtrace/memtrace/analyzer/export"
	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/analyzer/report"
)

// exports are the files of --export, which a trace's last Report is written to.
type exports struct {
	files []exportFile
	whole *report.Report // with all sites, whatever --top says
}

type exportFile struct {
	path    wholeFile
	options export.Options
}

func exportFlag() cli.Flag {
	return wholeFlag("export", "write the result for other tools too, such as pprof=heap.pb.gz or flamegraph:peak=peak.svg")
}

// exportsOf reads the flags. used are the files that other flags name, by name.
func exportsOf(c *cli.Context, used map[string]string) (exports, error) {
	var out exports
	for _, text := range wholes(c, "export") {
		f, err := parseExport(text)
		if err != nil {
			return out, usageError("--export %s: %v", text, err)
		}
		if other := used[string(f.path)]; other != "" {
			return out, usageError("--%s and --export name the same file, %s", other, f.path)
		}
		used[string(f.path)] = "export"
		out.files = append(out.files, f)
	}
	return out, nil
}

func parseExport(text string) (exportFile, error) {
	what, path, ok := strings.Cut(text, "=")
	f := exportFile{path: wholeFile(path), options: export.Options{Version: version}}
	switch {
	case !ok:
		return f, errors.New("it is to be FORMAT=FILE, such as flamegraph=heap.svg")
	case path == "":
		return f, errors.New("it names no file")
	case path == "-":
		return f, errors.New("stdout is taken by the Report or the command: name a file, or use memtrace export")
	}
	words := strings.Split(what, ":")
	f.options.Format = export.Format(words[0])
	if err := blocksNeedRecording(words[0], path); err != nil {
		return f, err
	}
	for _, word := range words[1:] {
		switch {
		case word == "inverted" && !f.options.Inverted:
			f.options.Inverted = true
		case f.options.Kind == "" && word != "":
			f.options.Kind = export.Kind(word)
		default:
			return f, fmt.Errorf("%q is one word too many after the format", word)
		}
	}
	return f, f.options.Check(false)
}

// check reports what would keep the files from being written, before anything starts.
func (e *exports) check() error {
	for _, f := range e.files {
		if err := f.path.check(); err != nil {
			return fmt.Errorf("--export: %w: nothing was started", err)
		}
	}
	return nil
}

func (e *exports) wanted() bool { return len(e.files) > 0 }

// keep keeps the whole of the last Report, and then limits it to what is shown.
func (e *exports) keep(r *report.Report, top int) {
	if !e.wanted() {
		return
	}
	whole := *r
	e.whole = &whole
	r.Limit(top)
}

// write writes all files, also after one could not be written.
func (e *exports) write() (failed error) {
	if e.whole == nil {
		return nil // it ended before there was a Report
	}
	for _, f := range e.files {
		f.options.Made = time.Now()
		if err := f.path.save(func(w io.Writer) error { return export.Write(w, e.whole, f.options) }); err != nil {
			failed = errors.Join(failed, fmt.Errorf("--export %s: %w", f.path, err))
			continue
		}
		warnEmpty(e.whole, f.options, "--export "+string(f.path))
	}
	return failed
}

// warnEmpty warns that a picture is empty because its Report has nothing of the kind.
func warnEmpty(r *report.Report, opt export.Options, what string) {
	if have, empty := export.Empty(r, opt); empty {
		fmt.Fprintf(os.Stderr, "memtrace: warning: %s is empty: the Report has nothing of this kind; it has: %s\n", render.Clean(what), have)
	}
}
