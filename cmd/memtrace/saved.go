package main

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/export"
	"github.com/memtrace/memtrace/analyzer/export/blocks"
	"github.com/memtrace/memtrace/analyzer/recording"
	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/cmd/memtrace/tui"
)

// savedCommands open files again. They need no root and nothing of the kernel.
func savedCommands() []*cli.Command {
	return []*cli.Command{
		{
			Name: "report", Usage: "show the Report of a recording, or a saved one",
			UsageText: "memtrace report FILE [--at TIME | --from TIME --to TIME] [options]", Description: reportDescription, Flags: reportFlags(), Action: reportCommand,
		},
		{
			Name: "export", Usage: "write a Report as a profile, flame graph or table",
			UsageText:   "memtrace export FILE --format FORMAT [--at TIME] [--kind KIND] [-o OUT]\nmemtrace export BEFORE AFTER --format flamegraph [-o OUT]",
			Description: exportDescription, Flags: exportFlags(), Action: exportCommand,
		},
		{
			Name: "query", Usage: "find blocks of a recording by an expression",
			UsageText:   "memtrace query FILE [EXPRESSION] [options]",
			Description: queryDescription + queryFields(), Flags: queryFlags(), Action: queryCommand,
		},
		{
			Name: "diff", Usage: "show what grew and shrank between two Reports, or two snapshots",
			UsageText:   "memtrace diff BEFORE.json AFTER.json [--kind KIND] [--by WHAT] [options]\nmemtrace diff BEFORE.snap AFTER.snap [--by FIGURE] [options]",
			Description: diffDescription, Flags: diffFlags(), Action: diffCommand,
		},
		webCommandOf(),
	}
}

const savedFiles = "FILE is a recording (memtrace record, -o), or a Report in JSON, as --format json or --report FILE --format json writes " +
	"it; of several, one a line, the last counts. - is a Report on stdin. FILE@TIME is a recording at that time: FILE@12.5s and FILE@1m30s since " +
	"its start, FILE@end-10s, FILE@2026-11-26T10:00:00Z."

const reportDescription = "Shows a Report as the trace showed it: of a recording the last one, or that of any time, with the blocks that " +
	"lived then.\n\n--from and --to show what happened in between, by call site or by what --by says: blocks that were born, of these the ones that " +
	"survived until the end of the span and those that ended in it, and all blocks that ended. --sort is born, ended, survived, churned, live or count then.\n\n" + savedFiles

const exportDescription = "Writes a Report for other tools. pprof, html, speedscope, csv and parquet have all kinds of bytes; the other " +
	"formats show the one of --kind. Two files give a picture of what changed: red grew, blue shrank.\n\n" +
	"heaptrack, firefox and perfetto have every block, and the course of time: FILE is then a recording, and --at where they end. An output that ends in .gz, and for " +
	"heaptrack in .zst, is compressed.\n\n" + savedFiles

func reportFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "format", Value: "text", Usage: "format of the output"},
		&cli.IntFlag{Name: "top", Value: 20, Usage: "number of sites to show; 0: all (json: 10,000 unless given; csv: all)"},
		&cli.StringFlag{Name: "sort", Usage: "order of the sites; as in the file unless given"},
		&cli.StringFlag{Name: "by", Usage: "what the sites are grouped by; as in the file unless given"},
		&cli.IntFlag{Name: "frames", Value: textFrames, Usage: "text: frames to show of each call stack; 0: all"},
		atFlag(),
		&cli.StringFlag{Name: "from", Usage: "of a recording: what was born and what ended since this time, and what became of it"},
		&cli.StringFlag{Name: "to", Usage: "the end of that span; the recording's unless given"},
		savedMemoryFlag(),
	}
}

func exportFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "format", Usage: "format of the output; must be given"},
		&cli.StringFlag{Name: "kind", Usage: "kind of bytes to show; live unless given"},
		&cli.BoolFlag{Name: "inverted", Usage: "from the allocating function to its callers"},
		&cli.IntFlag{Name: "pid", Usage: "heaptrack, firefox, perfetto: the blocks of this process alone; heaptrack holds one"},
		&cli.PathFlag{Name: "output", Aliases: []string{"o"}, Usage: "write here instead of to stdout"},
		atFlag(),
		savedMemoryFlag(),
	}
}

func atFlag() cli.Flag {
	return &cli.StringFlag{Name: "at", Usage: "of a recording: the Report of this time, such as 1m30s, end-10s or a time of day"}
}

func savedMemoryFlag() cli.Flag {
	return &cli.StringFlag{Name: "memory", Value: defaultMemory, Usage: "memory that memtrace may use; a Report that takes over half of it is refused"}
}

// jsonSites is how many sites a Report in JSON lists where --top does not say: with all of a machine's, one takes hundreds of megabytes.
const jsonSites = 10_000

var reportFormats = []string{"text", "json", "csv", "markdown"}

func reportCommand(c *cli.Context) error {
	format, top := c.String("format"), c.Int("top")
	switch {
	case !slices.Contains(reportFormats, format):
		return noneOf("--format", format, reportFormats)
	case top < 0:
		return usageError("--top must not be negative")
	case c.String("by") != "" && report.CheckGrouping(c.String("by")) != nil:
		return usageError("--by %v", report.CheckGrouping(c.String("by")))
	case c.Int("frames") < 0:
		return usageError("--frames must not be negative")
	case c.NArg() != 1:
		return usageError("report takes one file: memtrace report FILE (- is stdin)")
	case c.IsSet("from") || c.IsSet("to"):
		return reportSpan(c)
	case c.String("sort") != "" && !slices.Contains(analyzer.SortKeys(), c.String("sort")):
		return noneOf("--sort", c.String("sort"), analyzer.SortKeys())
	}
	r, _, err := openReport(c, c.Args().First())
	if err != nil {
		return err
	}
	switch {
	case format != "markdown" || r.Outcome != nil:
	case !c.IsSet("format"):
		format = "text" // a configuration's is for Reports that were checked
	default:
		return errors.New("markdown is the summary of a check, and this Report was not checked (--leaks, --fail-on)")
	}
	if c.String("sort") != "" {
		r.Sort(c.String("sort"))
	}
	if err := groupSaved(c, r); err != nil {
		return err
	}
	switch {
	case given(c, "top") || format != "json" && format != "csv":
		r.Limit(top)
	case format == "json":
		r.Limit(jsonSites)
	}
	opt := render.Options{
		Format: render.Format(format), Frames: cmp.Or(c.Int("frames"), -1), Stacks: textStacks, Made: true, Version: version,
		Held: isOfHeld(c.String("sort")) || c.String("sort") == "" && r.IsSorted(defaultSort),
	}
	if width, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil {
		opt.Width, opt.Color = width, tui.UseColor(os.Getenv)
	}
	return writeReport(os.Stdout, r, opt)
}

// writeReport writes a Report as text or JSON, or as a table of its sites.
func writeReport(w io.Writer, r *report.Report, opt render.Options) error {
	if opt.Format == render.CSV {
		return export.Write(w, r, export.Options{Format: export.CSV})
	}
	return render.Write(w, r, opt)
}

// groupSaved groups the sites as --by says. A Report that can't be grouped stays as it is where only a configuration
// asks.
func groupSaved(c *cli.Context, r *report.Report) error {
	by := c.String("by")
	if by == "" {
		return nil
	}
	err := regroup(r, by, c.String("sort"))
	if err == nil {
		return nil
	}
	err = fmt.Errorf("group %s: %w", fileName(c.Args().First()), err)
	if c.IsSet("by") {
		return err
	}
	asks, why := configuredOf(c.App)["by"].Where, render.Clean(err.Error())
	fmt.Fprintf(os.Stderr, "memtrace: warning: not grouped by %s, which %s asks for: %s\n", by, asks, why)
	return nil
}

// regroup groups the sites of a Report anew.
func regroup(r *report.Report, by, sort string) error {
	if r.SitesMore > 0 {
		return fmt.Errorf("the Report leaves out some of its sites (%d), which the groups would lack: save it with --top 0, or record the trace", r.SitesMore)
	}
	r.By, r.Groups, r.GroupsMore = "", nil, 0
	r.GroupBy(by, cmp.Or(sort, defaultSort), 0)
	return nil
}

func exportCommand(c *cli.Context) error {
	opt := exportOptions(c)
	switch {
	case opt.Format == "":
		return usageError("--format says what to write: %s", strings.Join(exportFormats(), ", "))
	case blocks.IsFormat(string(opt.Format)):
		return exportBlocks(c)
	case !slices.Contains(export.Formats(), string(opt.Format)):
		return noneOf("--format", string(opt.Format), exportFormats())
	case c.IsSet("pid"):
		return usageError("--pid is for %s", strings.Join(blocks.Formats(), ", "))
	}
	if c.NArg() == 2 && c.IsSet("at") {
		return usageError("--at is for one file: write FILE@TIME for each of two")
	}
	if c.NArg() != 1 && c.NArg() != 2 {
		return usageError("export takes one Report, or two to compare: memtrace export FILE --format %s (- is stdin)", render.Clean(string(opt.Format)))
	}
	if err := opt.Check(c.NArg() == 2); err != nil {
		return usageError("%v", err)
	}
	out := c.Path("output")
	if (out == "" || out == "-") && opt.Format.Binary() && term.IsTerminal(int(os.Stdout.Fd())) {
		return usageError("%s would write a binary file to the terminal: name a file with -o FILE", opt.Format)
	}
	write, err := exporter(c, &opt)
	if err != nil {
		return err
	}
	if out != "" && out != "-" {
		return wholeFile(out).save(write)
	}
	var whole bytes.Buffer // so that nobody reads half of it
	if err := write(&whole); err != nil {
		return err
	}
	_, err = os.Stdout.Write(whole.Bytes())
	return err
}

// exportOptions reads the flags. A kind and a direction that only a configuration has are for the formats that show
// them.
func exportOptions(c *cli.Context) export.Options {
	format, kind, inverted := export.Format(c.String("format")), export.Kind(c.String("kind")), c.Bool("inverted")
	fits := func(o export.Options) bool { return o.Check(false) == nil }
	if !c.IsSet("kind") && !fits(export.Options{Format: format, Kind: kind}) {
		kind = ""
	}
	if !c.IsSet("inverted") && !fits(export.Options{Format: format, Inverted: inverted}) {
		inverted = false
	}
	return export.Options{Format: format, Kind: kind, Inverted: inverted, Version: version}
}

// exporter opens the Reports and says how to write them.
func exporter(c *cli.Context, opt *export.Options) (func(io.Writer) error, error) {
	var reports []*report.Report
	for _, path := range c.Args().Slice() {
		r, made, err := openReport(c, path)
		if err != nil {
			return nil, err
		}
		reports, opt.Made = append(reports, r), made
	}
	if len(reports) == 2 {
		return func(w io.Writer) error { return export.WriteDiff(w, reports[0], reports[1], *opt) }, nil
	}
	warnEmpty(reports[0], *opt, "the export")
	return func(w io.Writer) error { return export.Write(w, reports[0], *opt) }, nil
}

// fileName is a file as messages name it.
func fileName(path string) string {
	if path == "-" {
		return "stdin"
	}
	return path
}

// openReport reads a saved Report or that of a recording, and says when it was written.
func openReport(c *cli.Context, path string) (*report.Report, time.Time, error) {
	memory, err := memoryLimit(c)
	if err != nil {
		return nil, time.Time{}, err
	}
	keepWithin(memory)
	path, at := splitInstant(path)
	if at, err = askedInstant(c, at); err != nil {
		return nil, time.Time{}, err
	}
	f, name := os.Stdin, fileName(path)
	if path != "-" {
		if f, err = openAsCaller(path); err != nil {
			return nil, time.Time{}, fmt.Errorf("read a Report: %w", withInstantMeant(path, err))
		}
		defer func() { _ = f.Close() }()
	}
	switch {
	case isRecording(f):
		return recordedReport(c.Context, f, name, at, memory)
	case at != "":
		return nil, time.Time{}, fmt.Errorf("read %s at %s: it is no recording, and a saved Report is of one time (memtrace record makes recordings)", name, at)
	}
	var made time.Time
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		made = info.ModTime()
	}
	in := bufio.NewReader(f)
	if begin, _ := in.Peek(recordingBegin); recording.Is(begin) {
		return nil, made, fmt.Errorf("read %s: a recording is read from several places, which a pipe does not allow: name the file", name)
	}
	r, note, err := export.Read(in, memory/2)
	switch {
	case errors.Is(err, export.ErrTooLarge):
		return nil, made, fmt.Errorf("read %s: %w; a larger --memory lets it have more, a half of that", name, err)
	case errors.Is(err, export.ErrNotReport), errors.Is(err, export.ErrEmpty):
		return nil, made, fmt.Errorf("read %s: %w; nor is it a recording: memtrace record -o FILE makes one, memtrace run --format json --report FILE a Report", name, err)
	case err != nil:
		return nil, made, fmt.Errorf("read %s: %w", name, err)
	}
	if note != "" {
		fmt.Fprintf(os.Stderr, "memtrace: warning: %s: %s\n", render.Clean(name), note)
	}
	return r, made, nil
}

// isOfHeld reports whether an order is by what sites hold. Sites that hold nothing then have no place in a table.
func isOfHeld(order string) bool { return order == defaultSort || order == "resident" }
