package main

import (
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/memtrace/memtrace/analyzer/matrix"
	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/analyzer/snapshot"
	"github.com/memtrace/memtrace/cmd/memtrace/tui"
)

func matrixFlags() []cli.Flag {
	flags := []cli.Flag{
		&cli.PathFlag{Name: "input", Aliases: []string{"i"}, Usage: "look at the snapshot in `FILE` instead of the live machine"},
		&cli.StringFlag{Name: "report", Value: "matrix", Usage: "the table to show, `NAME`: " + strings.Join(render.Tables(), ", ")},
		&cli.IntFlag{Name: "columns", Usage: "show `N` components; 0 shows as many as fit (csv: all)"},
	}
	return append(append(flags, tableFlags("rss", render.MatrixFormats())...), takeFlags()...)
}

// tableFlags are those of matrix and diff.
func tableFlags(by string, formats []string) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "by", Value: by, Usage: "the `FIGURE` to compare: " + strings.Join(matrix.Figures(), ", ")},
		&cli.StringFlag{Name: "unit", Usage: "write sizes in `UNIT`: " + strings.Join(render.Units(), ", ") + " (MB is 1,000,000 bytes)"},
		&cli.IntFlag{Name: "top", Value: 20, Usage: "show `N` rows; 0 shows all (other formats than text: all unless given)"},
		&cli.StringFlag{Name: "format", Value: "text", Usage: "`FORMAT` of the output: " + strings.Join(formats, ", ")},
		snapshotMemoryFlag(),
	}
}

const matrixDescription = "Shows how much memory each process uses of each file, of its heap and stack, of anonymous and of\n" +
	"shared memory: of the live machine, or of a snapshot of any machine. The cells of a row add up to\n" +
	"the process's RSS. Rows are in the order of USS, what ending the process would free; columns in that of RSS.\n\n" +
	"Examples:\n" +
	"  sudo memtrace matrix\n" +
	"  sudo memtrace matrix --by pss --unit MB --top 40\n" +
	"  sudo memtrace matrix --report components\n" +
	"  sudo memtrace matrix --format html > memory.html\n" +
	"  sudo memtrace matrix --report pages -p 1234\n" +
	"  memtrace matrix -i host.snap --report processes --format csv"

func matrixCommand(c *cli.Context) error {
	if err := refuseArguments(c); err != nil {
		return err
	}
	opt, err := tableOptions(c, render.MatrixFormats())
	if err != nil {
		return err
	}
	opt.Table, opt.Columns = c.String("report"), c.Int("columns")
	switch {
	case !slices.Contains(render.Tables(), opt.Table):
		return usageError("--report %q is none of %s", opt.Table, strings.Join(render.Tables(), ", "))
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
	o, err := takeOptions(c)
	if err != nil {
		return nil, err
	}
	path := c.Path("input")
	if path == "" {
		o.Pages = o.Pages || c.String("report") == "pages"
		return snapshot.Take(c.Context, o)
	}
	for _, name := range []string{"stall-budget", "time-limit", "pages"} {
		if c.IsSet(name) {
			return nil, usageError("--%s is for the live machine, not for a file", name)
		}
	}
	s, err := openSnapshot(c, path)
	if err != nil || o.PIDs == nil {
		return s, err
	}
	s.Processes = slices.DeleteFunc(s.Processes, func(p snapshot.Process) bool { return !slices.Contains(o.PIDs, p.PID) })
	return s, nil
}

// tableOptions checks the flags of matrix and diff.
func tableOptions(c *cli.Context, formats []string) (render.MatrixOptions, error) {
	opt := render.MatrixOptions{
		Format: render.Format(c.String("format")), By: matrix.By(c.String("by")), Unit: render.Unit(c.String("unit")), Top: c.Int("top"),
	}
	switch {
	case !slices.Contains(formats, string(opt.Format)):
		return opt, usageError("--format %q is none of %s", opt.Format, strings.Join(formats, ", "))
	case !slices.Contains(matrix.Figures(), string(opt.By)):
		return opt, usageError("--by %q is none of %s", opt.By, strings.Join(matrix.Figures(), ", "))
	case opt.Unit != "" && !slices.Contains(render.Units(), string(opt.Unit)):
		return opt, usageError("--unit %q is none of %s", opt.Unit, strings.Join(render.Units(), ", "))
	case opt.Top < 0:
		return opt, usageError("--top must not be negative")
	}
	if opt.Format != render.Text && !c.IsSet("top") {
		opt.Top = 0
	}
	if width, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil {
		opt.Width = width
		opt.Color = tui.UseColor(os.Getenv)
	}
	return opt, nil
}
