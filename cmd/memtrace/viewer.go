//go:build !linux || viewer

package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/urfave/cli/v2"
)

const viewerSays = "this is the viewer of recordings and Reports; tracing needs memtrace on Linux"

// madeFor is what --version says of where this runs.
const madeFor = "viewer of recordings and Reports"

// tracingNames are the commands that only memtrace on Linux has.
var tracingNames = []string{"trace", "run", "record", "top", "leaks", "serve", "doctor", "snapshot", "config"}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args))
}

// unsupported reports whether an error says that the kernel or the privileges do not allow it.
func unsupported(error) bool { return false }

func newApp() *cli.App {
	return withUsageHelp(&cli.App{
		Name:            "memtrace",
		Usage:           "shows what a trace has found: the viewer of recordings and Reports",
		UsageText:       "memtrace COMMAND [options]",
		Description:     "This memtrace shows what was recorded elsewhere. It needs no root, and nothing of Linux. To trace, use memtrace on Linux.",
		Version:         version,
		HideHelpCommand: true,
		Action:          noCommand,
		Before: func(c *cli.Context) error {
			context.AfterFunc(c.Context, endAtSecondSignal)
			return nil
		},
		Commands: slices.Concat(savedCommands(), fileCommands(), helpCommands(), missingCommands()),
		OnUsageError: func(c *cli.Context, err error, isCommand bool) error {
			return usageError("%w: %s", onUsageError(c, err, isCommand), viewerSays)
		},
		ExitErrHandler: func(*cli.Context, error) {}, // main alone exits
	})
}

// fileCommands look at snapshots that were taken elsewhere.
func fileCommands() []*cli.Command {
	return []*cli.Command{
		{
			Name: "matrix", Usage: "show which processes use how much of what", Description: matrixDescription,
			UsageText: matrixUsage, Flags: matrixFlags(), Action: matrixCommand,
		},
	}
}

// noCommand is what memtrace does without a command: it helps.
func noCommand(c *cli.Context) error {
	if !c.Args().Present() {
		_ = cli.ShowAppHelp(c)
		return &exitError{exitUsage, errQuiet}
	}
	var names []string
	for _, command := range c.App.Commands {
		if !command.Hidden {
			names = append(names, command.Name)
		}
	}
	arg := c.Args().First()
	return usageError("unknown command or argument %q%s (memtrace --help lists the commands)", arg, didYouMean(arg, names))
}

// missingCommands answer for those that there are on Linux alone, whatever follows them.
func missingCommands() []*cli.Command {
	var out []*cli.Command
	for _, name := range tracingNames {
		out = append(out, &cli.Command{
			Name: name, Hidden: true, HideHelp: true, SkipFlagParsing: true,
			Action: func(*cli.Context) error {
				fmt.Fprintf(os.Stderr, "memtrace %s: %s\n", name, viewerSays)
				return &exitError{exitUnsupported, errQuiet}
			},
		})
	}
	return out
}
