package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/memtrace/memtrace/analyzer/matrix"
	"github.com/memtrace/memtrace/analyzer/render"
)

func diffFlags() []cli.Flag { return tableFlags("pss", render.DiffFormats()) }

const diffDescription = "Shows what grew where between two snapshots: per process and per component, sorted by growth.\n" +
	"A process is the same if its PID, its start time and the boot of its machine are.\n\n" +
	"Examples:\n" +
	"  memtrace diff before.snap after.snap\n" +
	"  memtrace diff --by uss --top 5 before.snap after.snap\n" +
	"  memtrace diff --format json before.snap after.snap"

func diffCommand(c *cli.Context) error {
	opt, err := tableOptions(c, render.DiffFormats())
	if err != nil {
		return err
	}
	for _, arg := range c.Args().Slice() {
		if strings.HasPrefix(arg, "-") && len(arg) > 1 {
			return usageError("the flag %s comes after the argument %q; put flags first", arg, c.Args().First())
		}
	}
	if c.NArg() != 2 {
		return usageError("diff takes two snapshots: memtrace diff BEFORE AFTER")
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
