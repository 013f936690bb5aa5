package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/memtrace/memtrace/analyzer/compare"
	"github.com/memtrace/memtrace/analyzer/export"
	"github.com/memtrace/memtrace/analyzer/matrix"
	"github.com/memtrace/memtrace/analyzer/render"
)

func diffFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "kind", Usage: "Reports: kind of bytes to compare; live unless given"},
		&cli.StringFlag{Name: "by", Usage: "Reports: a row for each; site unless given. Snapshots: figure to compare by; pss unless given"},
		&cli.StringFlag{Name: "unit", Usage: "snapshots: unit of sizes; MB is 1,000,000 bytes"},
		&cli.IntFlag{Name: "top", Value: 20, Usage: "number of rows to show; 0: all (json, csv: all unless given)"},
		&cli.StringFlag{Name: "format", Value: "text", Usage: "format of the output; markdown is for Reports"},
		&cli.StringFlag{Name: "memory", Value: defaultMemory, Usage: "limit memtrace's own memory; a Report over half of it, or a snapshot over a fifth, is refused"},
	}
}

const diffDescription = "Shows what grew and what shrank from BEFORE to AFTER. Both are Reports or recordings, or both are snapshots; memtrace looks into the files " +
	"to see.\n\n" +
	"Two Reports (saved by --format json) or recordings, each also at a time (FILE@1m30s, FILE@end-10s): by call site, or what --by names. Sites match by the functions of their stacks, so across " +
	"builds and processes. What grew is never set off against what shrank. - is stdin.\n\n" +
	"Two snapshots: by process and by component, the largest growth first. A process is the same if its PID, its start time and " +
	"the boot of its machine are."

// diffGroupings are the words of --by, of Reports and of snapshots.
func diffGroupings() []string { return slices.Concat(compare.Groupings(), matrix.Figures()) }

func diffCommand(c *cli.Context) error {
	switch format := c.String("format"); {
	case !slices.Contains(render.ComparisonFormats(), format):
		return noneOf("--format", format, render.ComparisonFormats())
	case asksFor(c, "by") && !slices.Contains(diffGroupings(), c.String("by")):
		return noneOf("--by", c.String("by"), diffGroupings())
	case c.Int("top") < 0:
		return usageError("--top must not be negative")
	case c.NArg() != 2:
		return usageError("diff takes two Reports, or two snapshots: memtrace diff BEFORE AFTER")
	case c.Args().Get(0) == "-" && c.Args().Get(1) == "-":
		return usageError("only one of the two can be - (stdin)")
	}
	before, after := contentOf(c.Args().Get(0)), contentOf(c.Args().Get(1))
	switch {
	case before == aSnapshot && (after == aReport || after == aRecording), (before == aReport || before == aRecording) && after == aSnapshot:
		return fmt.Errorf("compare %s and %s: the first is %s, and the second %s: diff takes two of one kind", c.Args().Get(0), c.Args().Get(1), before, after)
	case before == aSnapshot, after == aSnapshot:
		return diffSnapshots(c)
	}
	return diffReports(c)
}

func diffSnapshots(c *cli.Context) error {
	by, format := fitting(c, "by", matrix.Figures()), fitting(c, "format", render.DiffFormats())
	switch {
	case asksFor(c, "kind"):
		return usageError("--kind is for Reports, and these are snapshots: --by %s says what to compare", matrix.Figures()[0])
	case by != "" && !slices.Contains(matrix.Figures(), by):
		return usageError("--by %s is for Reports, and these are snapshots, which are compared by one of %v", by, matrix.Figures())
	case format != "" && !slices.Contains(render.DiffFormats(), format):
		return usageError("--format %s is for Reports, and these are snapshots, which are written as one of %v", format, render.DiffFormats())
	}
	opt, err := tableOptions(c, cmp.Or(matrix.By(by), matrix.PSS), render.DiffFormats())
	if err != nil {
		return err
	}
	before, err := openSnapshot(c, c.Args().Get(0))
	if err != nil {
		return fmt.Errorf("compare snapshots: %w", err)
	}
	after, err := openSnapshot(c, c.Args().Get(1))
	if err != nil {
		return fmt.Errorf("compare snapshots: %w", err)
	}
	return render.WriteDiff(os.Stdout, matrix.Compare(before, after, opt.By), opt)
}

// diffReports compares what openReport opens.
func diffReports(c *cli.Context) error {
	kind := cmp.Or(export.Kind(c.String("kind")), export.Live)
	by := cmp.Or(fitting(c, "by", compare.Groupings()), compare.Groupings()[0])
	switch {
	case !slices.Contains(export.Kinds(), string(kind)):
		return noneOf("--kind", string(kind), export.Kinds())
	case !slices.Contains(compare.Groupings(), by):
		return usageError("--by %s is for snapshots, and these are Reports, which are compared by one of %v", by, compare.Groupings())
	case asksFor(c, "unit"):
		return usageError("--unit is for snapshots, and these are Reports")
	}
	var sides [2]compare.Side
	for i := range sides {
		r, _, err := openReport(c, c.Args().Get(i))
		if err != nil {
			return err
		}
		sides[i] = export.Measure(fileName(c.Args().Get(i)), r, kind)
	}
	d, err := compare.Compare(kind.Figure(), sides[0], sides[1], by)
	if err != nil {
		return fmt.Errorf("compare Reports: %w", err)
	}
	return writeComparison(c, d)
}
