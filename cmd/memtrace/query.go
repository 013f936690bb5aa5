package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/memtrace/memtrace/analyzer"
	"github.com/memtrace/memtrace/analyzer/query"
	"github.com/memtrace/memtrace/analyzer/recording"
	"github.com/memtrace/memtrace/analyzer/render"
)

const queryDescription = "Finds the blocks of a recording that fulfil an expression, and sums them up: by call site, or by what --by says. " +
	"Without an expression these are all blocks.\n\n" +
	"An expression compares fields with numbers, times (1ms, 1m30s), sizes (4KiB, 1MB) and texts in quotes: < <= > >= == !=, ~ (matches a regular expression), " +
	"!~, in [LIST]; and joins comparisons by &&, ||, ! and parentheses. alive_at(30s) holds for blocks that lived then. + - * / % calculate.\n\n"

// queryFields lists the fields, for help.
func queryFields() string {
	var b strings.Builder
	b.WriteString("Fields:\n")
	for _, f := range query.Fields() {
		fmt.Fprintf(&b, "  %-13s  %s\n", f.Name, f.Text)
	}
	return strings.TrimRight(b.String(), "\n")
}

// queryBy is what a query sums up by where nobody says it.
const queryBy = "site"

func queryFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "by", Value: queryBy, Usage: "what to sum up by; none lists single blocks"},
		&cli.StringFlag{Name: "sort", Value: "bytes", Usage: "order of the groups or blocks, from high to low; first is the earliest"},
		&cli.IntFlag{Name: "top", Value: 20, Usage: "number of groups, blocks or events to show; 0: all (json, csv: all unless given)"},
		&cli.StringFlag{Name: "format", Value: "text", Usage: "format of the output"},
		&cli.BoolFlag{Name: "events", Usage: "show the births and ends of these blocks themselves, in their order"},
		&cli.DurationFlag{Name: "timeline", Usage: "show what lives, is born and ends in steps of this length"},
		&cli.StringFlag{Name: "at", Usage: "look at the blocks that live at this time, such as 1m30s, end-10s or a time of day"},
		&cli.StringFlag{Name: "from", Usage: "look at blocks that live at this time or later"},
		&cli.StringFlag{Name: "to", Usage: "look at what is known at this time: what is freed later lives"},
		savedMemoryFlag(),
	}
}

func queryCommand(c *cli.Context) error {
	format := c.String("format")
	opt := query.Options{Events: c.Bool("events"), Timeline: c.Duration("timeline"), Limit: c.Int("top")}
	if !given(c, "top") && (format == "json" || format == "csv") {
		opt.Limit = 0
	}
	if asksFor(c, "by") || !opt.Events && opt.Timeline == 0 {
		opt.By = cmp.Or(c.String("by"), queryBy)
	}
	if asksFor(c, "sort") || given(c, "sort") && !opt.Events && opt.Timeline == 0 {
		opt.Order = c.String("sort")
	}
	switch {
	case !slices.Contains(query.Formats(), format):
		return noneOf("--format", format, query.Formats())
	case opt.By != "" && !slices.Contains(query.Groupings(), opt.By):
		return noneOf("--by", opt.By, query.Groupings())
	case opt.Order != "" && !slices.Contains(query.Orders(), opt.Order):
		return noneOf("--sort", opt.Order, query.Orders())
	case c.NArg() != 1 && c.NArg() != 2:
		return usageError("query takes a recording and one expression, in quotes: memtrace query FILE 'lifetime < 1ms && size > 4KiB'")
	case c.IsSet("at") && (c.IsSet("from") || c.IsSet("to")):
		return usageError("--at is one time, --from and --to are a span: give the one or the other")
	}
	if opt.Check() != nil && !c.IsSet("sort") {
		opt.Order = "" // a configuration's may be for groups alone
	}
	if err := opt.Check(); err != nil {
		return usageError("%v", err)
	}
	q, err := query.Compile(c.Args().Get(1))
	if err != nil {
		return explained(err)
	}
	return queryFile(c, q, opt, format)
}

// explained shows where an expression is wrong.
func explained(err error) error {
	var problem *query.Problem
	if !errors.As(err, &problem) {
		return err
	}
	fmt.Fprintf(os.Stderr, "memtrace: query: %s", render.CleanLines(problem.Explain()))
	return &exitError{exitUsage, errQuiet}
}

// queryFile asks a recording.
func queryFile(c *cli.Context, q *query.Query, opt query.Options, format string) error {
	r, src, err := openBlocksOf(c, "query", "a saved Report has no single blocks")
	if err != nil {
		return err
	}
	defer r.close()
	if opt.From, opt.To, err = querySpan(r.Reader, r.at, c.String("from"), c.String("to")); err != nil {
		return fmt.Errorf("query %s: %w", r.path, err)
	}
	res, err := query.Run(src, q, opt)
	if err != nil {
		return fmt.Errorf("query %s: %w", r.path, err)
	}
	for _, note := range res.Notes {
		fmt.Fprintf(os.Stderr, "memtrace: %s\n", render.Clean(note))
	}
	return query.Write(os.Stdout, res, format, terminalWidth())
}

// An openedRecording is one that is asked about its blocks.
type openedRecording struct {
	*recording.Reader
	path, at string // at is the time of FILE@TIME or of --at; "": none
	file     *os.File
}

func (r *openedRecording) close() { _ = r.file.Close() }

// openBlocksOf opens the recording that a command names. why says why the command takes nothing else.
func openBlocksOf(c *cli.Context, command, why string) (out openedRecording, src query.Source, err error) {
	memory, err := memoryLimit(c)
	if err != nil {
		return out, src, err
	}
	keepWithin(memory)
	path, at := splitInstant(c.Args().First())
	if at, err = askedInstant(c, at); err != nil {
		return out, src, err
	}
	f, err := openAsCaller(path)
	if err != nil {
		return out, src, fmt.Errorf("%s a recording: %w", command, withInstantMeant(path, err))
	}
	defer func() {
		if err != nil {
			_ = f.Close()
		}
	}()
	if !isRecording(f) {
		return out, src, fmt.Errorf("%s %s: it is no recording; memtrace record -o FILE makes one, and %s", command, path, why)
	}
	out = openedRecording{path: path, at: at, file: f}
	if out.Reader, err = readRecording(c.Context, f, path); err != nil {
		return out, src, err
	}
	if src, err = querySource(out.Reader, memory); err != nil {
		err = fmt.Errorf("%s %s: %w", command, path, err)
	}
	return out, src, err
}

// querySpan is the span that is asked for, ns since the trace began.
func querySpan(r *recording.Reader, at, from, to string) (first, last uint64, err error) {
	if at != "" {
		from, to = at, at
	}
	begin, _ := r.Span()
	for _, one := range []struct {
		text string
		to   *uint64
	}{{from, &first}, {to, &last}} {
		if one.text == "" {
			continue
		}
		when, err := parseInstant(one.text)
		if err != nil {
			return 0, 0, usageError("%v", err)
		}
		t, err := when.of(r)
		if err != nil {
			return 0, 0, err
		}
		*one.to = max(t-begin, 1) // 0 would be no limit
	}
	if last != 0 && first > last {
		return 0, 0, usageError("--from %s is after --to %s", from, to)
	}
	return first, last, nil
}

// querySource plays a recording as often as a query needs.
func querySource(r *recording.Reader, memory uint64) (query.Source, error) {
	sites, blocks := memoryShares(memory)
	config, err := r.Header().Config.Analyzer(sites, blocks)
	if err != nil {
		return query.Source{}, err
	}
	first, last := r.Span()
	return query.Source{Config: config, End: last - first, Play: func(a *analyzer.Analyzer, from, until uint64) ([]string, error) {
		return r.PlayFrom(a, from, until, nil)
	}}, nil
}
