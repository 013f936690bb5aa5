package main

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/memtrace/memtrace/analyzer/snapshot"
)

// openSnapshot reads a file for a command, or says what to do where it is none.
func openSnapshot(c *cli.Context, path string) (*snapshot.Snapshot, error) {
	memory, err := memoryLimit(c)
	if err != nil {
		return nil, err
	}
	keepWithin(memory)
	var s *snapshot.Snapshot
	err = asCaller(func() (err error) { s, err = snapshot.OpenWithin(path, snapshotRoom(memory)); return err })
	if errors.Is(err, snapshot.ErrTooLarge) {
		return nil, fmt.Errorf("%w; a larger --memory lets it have more, a fifth of that", err)
	}
	if errors.Is(err, snapshot.ErrNotSnapshot) {
		return nil, fmt.Errorf("%w; memtrace snapshot -o FILE makes one", err)
	}
	return s, err
}
