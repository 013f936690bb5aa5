//go:build !linux || viewer

package main

import (
	"github.com/urfave/cli/v2"

	"github.com/memtrace/memtrace/analyzer/snapshot"
)

// asCaller runs f: the viewer has no more rights than who called it.
func asCaller(f func() error) error { return f() }

// What matrix shows in this build.
const (
	matrixUsage = "memtrace matrix -i FILE [options]"
	matrixInput = "show the snapshot in this file; must be given"
	matrixOf    = ", in a snapshot of a machine"
)

// takeFlags are those of a command that looks at a machine: of a snapshot, which processes to show.
func takeFlags() []cli.Flag {
	return []cli.Flag{&cli.StringSliceFlag{Name: "pid", Aliases: []string{"p"}, Usage: "only this process; -p 1,2 or -p 1 -p 2 for several"}}
}

// chosenPIDs are the processes of --pid; nil: all.
func chosenPIDs(c *cli.Context) ([]int, error) { return parsePIDs(c.StringSlice("pid")) }

func liveMachine(*cli.Context) (*snapshot.Snapshot, error) {
	return nil, usageError("matrix shows a snapshot here, not this machine: memtrace matrix -i FILE (memtrace snapshot -o FILE makes one on Linux)")
}

// configure does nothing: the viewer has its flags from the command line alone.
func configure(*cli.App, []string) {}
