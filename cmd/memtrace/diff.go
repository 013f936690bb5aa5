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

const diffDescription = "Shows what grew between two snapshots, by process and by component, the largest growth first. A process is the same if its PID, its start time and the boot of its machine are."

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
