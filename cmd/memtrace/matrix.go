package main

import (
	"cmp"
	"os"
	"slices"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/memtrace/memtrace/analyzer/matrix"
	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/analyzer/snapshot"
	"github.com/memtrace/memtrace/cmd/memtrace/tui"
)

func matrixFlags() []cli.Flag {
	flags := []cli.Flag{
		&cli.PathFlag{Name: "input", Aliases: []string{"i"}, Usage: matrixInput},
		&cli.StringFlag{Name: "report", Value: "matrix", Usage: "the table to show"},
		&cli.IntFlag{Name: "columns", Usage: "number of components to show; 0: as many as fit (csv: all)"},
		&cli.StringFlag{Name: "by", Value: string(matrix.RSS), Usage: "figure to compare by"},
		&cli.StringFlag{Name: "unit", Usage: "unit of sizes; MB is 1,000,000 bytes"},
		&cli.IntFlag{Name: "top", Value: 20, Usage: "number of rows to show; 0: all (other formats than text: all unless given)"},
		&cli.StringFlag{Name: "format", Value: "text", Usage: "format of the output"},
		snapshotMemoryFlag(),
	}
	return append(flags, takeFlags()...)
}

const matrixDescription = "Shows how much memory each process uses of each file, heap, stack, anonymous and shared memory" + matrixOf + ".\n\n" +
	"The cells of a row add up to the process's RSS. Rows are ordered by USS, which is what ending the process would free; columns by RSS."

func matrixCommand(c *cli.Context) error {
	if err := refuseArguments(c); err != nil {
		return err
	}
	formats := render.MatrixFormats()
	if c.String("report") == "pages" && !c.IsSet("format") {
		formats = slices.DeleteFunc(formats, func(f string) bool { return f == string(render.CSV) })
	}
	opt, err := tableOptions(c, matrix.By(c.String("by")), formats)
	if err != nil {
		return err
	}
	opt.Table, opt.Columns = c.String("report"), c.Int("columns")
	switch {
	case !slices.Contains(render.Tables(), opt.Table):
		return noneOf("--report", opt.Table, render.Tables())
	case opt.Table == "pages" && opt.Format == render.CSV:
		return usageError("--report pages is written as text or json only")
	case opt.Columns < 0:
		return usageError("--columns must not be negative")
	}
	s, err := liveOrFile(c)
	if err != nil {
		return err
	}
	return render.WriteMatrix(os.Stdout, matrix.New(s), opt)
}

// liveOrFile reads the snapshot of --input, or takes one.
func liveOrFile(c *cli.Context) (*snapshot.Snapshot, error) {
	pids, err := chosenPIDs(c)
	if err != nil {
		return nil, err
	}
	path := c.Path("input")
	if path == "" {
		return liveMachine(c)
	}
	for _, name := range []string{"stall-budget", "time-limit", "pages"} {
		if asksFor(c, name) {
			return nil, usageError("--%s is for the live machine, not for a file", name)
		}
	}
	s, err := openSnapshot(c, path)
	if err != nil || pids == nil {
		return s, err
	}
	s.Processes = slices.DeleteFunc(s.Processes, func(p snapshot.Process) bool { return !slices.Contains(pids, p.PID) })
	return s, nil
}

// tableOptions checks the flags of tables of snapshots.
func tableOptions(c *cli.Context, by matrix.By, formats []string) (render.MatrixOptions, error) {
	opt := render.MatrixOptions{
		Format: render.Format(cmp.Or(fitting(c, "format", formats), string(render.Text))), By: by,
		Unit: render.Unit(c.String("unit")), Top: c.Int("top"),
	}
	switch {
	case !slices.Contains(formats, string(opt.Format)):
		return opt, noneOf("--format", string(opt.Format), formats)
	case !slices.Contains(matrix.Figures(), string(opt.By)):
		return opt, noneOf("--by", string(opt.By), matrix.Figures())
	case opt.Unit != "" && !slices.Contains(render.Units(), string(opt.Unit)):
		return opt, noneOf("--unit", string(opt.Unit), render.Units())
	case opt.Top < 0:
		return opt, usageError("--top must not be negative")
	}
	if opt.Format != render.Text && !given(c, "top") {
		opt.Top = 0
	}
	if width, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil {
		opt.Width = width
		opt.Color = tui.UseColor(os.Getenv)
	}
	return opt, nil
}
