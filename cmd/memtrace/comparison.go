package main

import (
	"fmt"
	"os"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/memtrace/memtrace/analyzer/compare"
	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/cmd/memtrace/tui"
)

// comparedStacks is how many stacks follow the table.
const comparedStacks = 3

// writeComparison writes what changed between two Reports to stdout.
func writeComparison(c *cli.Context, d *compare.Diff) error {
	opt := render.ComparisonOptions{Format: render.Format(c.String("format")), Top: c.Int("top"), Stacks: comparedStacks, Frames: textFrames}
	if !given(c, "top") && (opt.Format == render.JSON || opt.Format == render.CSV) {
		opt.Top = 0
	}
	if width, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil {
		opt.Width, opt.Color = width, tui.UseColor(os.Getenv)
	}
	if opt.Format == render.CSV {
		for _, text := range d.Cautions {
			fmt.Fprintf(os.Stderr, "memtrace: warning: %s\n", render.Clean(text))
		}
	}
	return render.WriteComparison(os.Stdout, d, opt)
}
