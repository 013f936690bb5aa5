package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/memtrace/memtrace/analyzer/query"
	"github.com/memtrace/memtrace/analyzer/render"
)

// reportSpan shows what happened in a recording between two times.
func reportSpan(c *cli.Context) error {
	opt := query.SpanOptions{Limit: c.Int("top")}
	opt.By, opt.Order = fitting(c, "by", query.Groupings()), fitting(c, "sort", query.SpanOrders())
	format := cmp.Or(fitting(c, "format", query.Formats()), "text")
	if !given(c, "top") && format != "text" {
		opt.Limit = 0
	}
	switch {
	case c.IsSet("at"):
		return usageError("--at is one time, --from and --to are a span: give the one or the other")
	case !slices.Contains(query.Formats(), format):
		return usageError("--format %s is for one time; of a span, one of %v", format, query.Formats())
	case c.IsSet("frames"):
		return usageError("--frames is for one time: of a span, each site is one line")
	case opt.Order != "" && !slices.Contains(query.SpanOrders(), opt.Order):
		return usageError("--sort %s is for one time; of a span, one of %v", render.Clean(opt.Order), query.SpanOrders())
	}
	r, src, err := openBlocksOf(c, "report", "a saved Report is of one time")
	if err != nil {
		return err
	}
	defer r.close()
	if opt.From, opt.To, err = querySpan(r.Reader, "", c.String("from"), c.String("to")); err != nil {
		return fmt.Errorf("report %s: %w", r.path, err)
	}
	if first, carried := r.From(); carried && opt.From == 0 {
		begin, _ := r.Span()
		opt.From = first - begin // what lived then was not born
	}
	span, err := query.RunSpan(src, opt)
	if err != nil {
		return fmt.Errorf("report %s: %w", r.path, err)
	}
	for _, note := range span.Notes {
		fmt.Fprintf(os.Stderr, "memtrace: %s\n", render.Clean(note))
	}
	return span.Write(os.Stdout, format, terminalWidth())
}
