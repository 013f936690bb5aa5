//go:build linux && !viewer

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/memtrace/memtrace/analyzer/snapshot"
)

// snapshotCommands take snapshots and look at them.
func snapshotCommands() []*cli.Command {
	return []*cli.Command{
		{
			Name: "snapshot", Usage: "save the memory of all processes to a file", Description: snapshotDescription,
			UsageText: "memtrace snapshot -o FILE [options]\nmemtrace snapshot --watch CONDITION [-o FILE] [options]", Flags: snapshotFlags(), Action: snapshotCommand,
		},
		{
			Name: "matrix", Usage: "show which processes use how much of what", Description: matrixDescription,
			UsageText: matrixUsage, Flags: matrixFlags(), Action: matrixCommand,
		},
	}
}

// takeFlags are those of the commands that look at the live machine.
func takeFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "pid", Aliases: []string{"p"}, Usage: "only this process; -p 1,2 or -p 1 -p 2 for several"},
		&cli.BoolFlag{Name: "pages", Usage: "look at each page too: frame numbers, map counts and flags (needs root)"},
		&cli.DurationFlag{Name: "stall-budget", Value: 2 * time.Millisecond, Usage: "hold a process's memory lock at most this long per second; 0: no limit"},
		&cli.DurationFlag{Name: "time-limit", Value: 30 * time.Second, Usage: "leave out, and list, processes that take longer to read; 0: no limit"},
	}
}

func snapshotFlags() []cli.Flag {
	return append([]cli.Flag{
		&cli.PathFlag{Name: "output", Aliases: []string{"o"}, Usage: "write the snapshot to this file; - is stdout"},
	}, append(takeFlags(), watchFlags()...)...)
}

const snapshotDescription = "Saves the memory of all processes, mapping by mapping. memtrace matrix and memtrace diff show it on this or any other machine.\n\n" +
	"Without root, processes of other users have no figures. The file holds command lines, so only its owner may read it."

func snapshotCommand(c *cli.Context) error {
	if err := refuseArguments(c); err != nil {
		return err
	}
	o, err := takeOptions(c)
	if err != nil {
		return err
	}
	path, watches := c.Path("output"), unlessNone(c.StringSlice("watch")) != nil
	if isStdout(path) {
		path = "-" // where it stands: a file may have been opened to append to it
	}
	switch {
	case path == "-" && term.IsTerminal(int(os.Stdout.Fd())):
		return usageError("-o - would write a binary file to the terminal; redirect stdout, or name a file")
	case watches && path == "-":
		return usageError("-o - does not go with --watch, which writes lines to stdout; name a file")
	case watches:
		return watchCommand(c, o)
	case path == "":
		return usageError("nowhere to write to: name a file with -o FILE")
	}
	for _, name := range []string{"once", "exec", "interval", "duration", "hysteresis", "error-exitcode", "format"} {
		if asksFor(c, name) {
			return usageError("--%s goes with --watch", name)
		}
	}
	return takeAndSave(c.Context, o, path, os.Stdout)
}

// takeAndSave takes a snapshot, saves it and says what is in it.
func takeAndSave(ctx context.Context, o snapshot.Options, path string, said io.Writer) error {
	s, err := snapshot.Take(ctx, o)
	if err == nil {
		err = missing(s, o.PIDs)
	}
	if err != nil {
		return err
	}
	if path == "-" {
		said = os.Stderr
		err = snapshot.Write(os.Stdout, s)
		path = "stdout"
	} else {
		err = asCaller(func() error { _, err := snapshot.Save(ctx, path, s); return err })
	}
	if err != nil {
		return err
	}
	describeSnapshot(said, path, s)
	return nil
}

// missing refuses a snapshot that has none of the processes asked for, and
// says of those that it lacks beside others that they have ended.
func missing(s *snapshot.Snapshot, pids []int) error {
	var gone []int
	for _, pid := range pids {
		if !slices.ContainsFunc(s.Processes, func(p snapshot.Process) bool { return p.PID == pid }) {
			gone = append(gone, pid)
		}
	}
	if len(gone) > 0 && len(gone) == len(pids) {
		return endedError(gone[0])
	}
	for _, pid := range gone {
		fmt.Fprintf(os.Stderr, "memtrace: warning: %v\n", endedError(pid))
	}
	return nil
}

// describeSnapshot says in a line what a snapshot has.
func describeSnapshot(said io.Writer, path string, s *snapshot.Snapshot) {
	unread := 0
	for i := range s.Processes {
		if s.Processes[i].Access != snapshot.Known {
			unread++
		}
	}
	fmt.Fprintf(said, "%s: %d processes, %d components, taken in %v", path, len(s.Processes), len(s.Components), s.Took().Round(100*time.Microsecond))
	if unread > 0 {
		fmt.Fprintf(said, "; %d not read (memtrace matrix says why)", unread)
	}
	fmt.Fprintf(said, "; meanwhile %d came, %d went\n", len(s.Changes.Came), len(s.Changes.Went))
}

func takeOptions(c *cli.Context) (snapshot.Options, error) {
	o := snapshot.Options{
		StallBudget: c.Duration("stall-budget"), TimeLimit: c.Duration("time-limit"), Memtrace: version, Pages: c.Bool("pages"),
		Waiting: func(processes int, longest time.Duration) {
			fmt.Fprintf(os.Stderr, "memtrace: reading large processes bit by bit to keep to --stall-budget: %d, for up to %v (0 reads them at once)\n",
				processes, longest.Round(100*time.Millisecond))
		},
	}
	switch {
	case o.StallBudget < 0 || o.StallBudget > time.Second:
		return o, usageError("--stall-budget %v is not a part of a second: from 0s (no limit) to 1s", o.StallBudget)
	case o.TimeLimit < 0:
		return o, usageError("--time-limit must not be negative")
	}
	var err error
	o.PIDs, err = parsePIDs(c.StringSlice("pid"))
	return o, err
}
