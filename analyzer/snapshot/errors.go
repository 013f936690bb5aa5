package snapshot

import "errors"

var (
	// ErrNotSnapshot means that a file is none of memtrace's snapshots.
	ErrNotSnapshot = errors.New("not a snapshot of memtrace")
	// ErrVersion means that a snapshot is of a newer format than this program's.
	ErrVersion = errors.New("the snapshot was made by a newer memtrace")
	// ErrCorrupt means that a snapshot is damaged or was cut off.
	ErrCorrupt = errors.New("the snapshot is damaged")
)
