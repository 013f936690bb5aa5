//go:build linux && !viewer

package main

import (
	"github.com/urfave/cli/v2"

	"github.com/memtrace/memtrace/analyzer/snapshot"
)

// What matrix shows in this build.
const (
	matrixUsage = "memtrace matrix [-i FILE] [options]"
	matrixInput = "show the snapshot in this file instead of this machine"
	matrixOf    = ": of this machine, or of a snapshot of any machine"
)

// chosenPIDs checks the flags about taking a snapshot and returns the processes of --pid; nil: all.
func chosenPIDs(c *cli.Context) ([]int, error) {
	o, err := takeOptions(c)
	return o.PIDs, err
}

// liveMachine takes a snapshot for matrix.
func liveMachine(c *cli.Context) (*snapshot.Snapshot, error) {
	o, err := takeOptions(c)
	if err != nil {
		return nil, err
	}
	o.Pages = o.Pages || c.String("report") == "pages"
	s, err := snapshot.Take(c.Context, o)
	if err == nil {
		err = missing(s, o.PIDs)
	}
	return s, err
}
