package main

import (
	"math"
	"os"
	"runtime/debug"

	"github.com/urfave/cli/v2"

	"github.com/memtrace/memtrace/analyzer/threshold"
)

const (
	defaultMemory = "1GiB"
	leastMemory   = 64 << 20
)

func memoryFlag() cli.Flag {
	return &cli.StringFlag{Name: "memory", Value: defaultMemory, Usage: "limit memtrace's own memory; beyond it, further call stacks and blocks are not kept, and the Report says so"}
}

// snapshotMemoryFlag is memoryFlag for commands that read snapshots.
func snapshotMemoryFlag() cli.Flag {
	return &cli.StringFlag{Name: "memory", Value: defaultMemory, Usage: "limit memtrace's own memory; a snapshot that needs more than a fifth of it is refused"}
}

// memoryLimit reads --memory.
func memoryLimit(c *cli.Context) (uint64, error) {
	text := c.String("memory")
	if text == "" {
		text = defaultMemory // not a flag of this command
	}
	bytes, err := threshold.ParseSize(text)
	switch {
	case err != nil:
		return 0, usageError("--memory: %v", err)
	case bytes < leastMemory:
		return 0, usageError("--memory %s is less than 64MiB, which memtrace takes for itself", text)
	}
	return bytes, nil
}

// memoryShares are the parts of --memory for call sites and for live blocks. The rest
// is for what is read of files, and for the Reports.
func memoryShares(memory uint64) (sites, blocks uint64) { return memory / 16 * 5, memory / 16 * 7 }

// snapshotRoom is the part of --memory for a snapshot that is read.
func snapshotRoom(memory uint64) uint64 { return memory / 5 }

// keepWithin has the garbage collector run more often before memory is used up.
// Where GOMEMLIMIT says something else, that stands.
func keepWithin(memory uint64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(int64(min(memory, math.MaxInt64)))
	}
}
