//go:build linux && !viewer

package main

import (
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/memtrace/memtrace/analyzer/recording"
)

// lasting says what of a recording lasts: all of it, if keep and flight are 0.
type lasting struct {
	keep, flight time.Duration
	freezeOn     freezeConditions
	room         int64 // that flight takes in memory, bytes
}

// rings reports whether only the last of the recording is kept.
func (l *lasting) rings() bool { return l.keep > 0 || l.flight > 0 }

// leastKept is the shortest time that a ring keeps.
const leastKept = time.Second

// lastingOf reads the flags. maxSize is that of --max-size, 0: none.
func lastingOf(c *cli.Context, maxSize int64) (l lasting, err error) {
	l = lasting{keep: c.Duration("keep"), flight: c.Duration("flight"), room: recording.DefaultRoom}
	if maxSize != 0 {
		l.room = maxSize
	}
	switch {
	case l.keep != 0 && l.keep < leastKept:
		return l, usageError("--keep %v is less than a second", l.keep)
	case l.flight != 0 && l.flight < leastKept:
		return l, usageError("--flight %v is less than a second", l.flight)
	case l.keep > 0 && l.flight > 0:
		return l, usageError("--keep cannot be combined with --flight: the one keeps the last of a recording on disk, the other in memory")
	case l.keep > 0 && maxSize != 0:
		return l, usageError("--keep cannot be combined with --max-size: what is older than %v makes room for what comes", l.keep)
	case l.flight > 0 && maxSize != 0 && maxSize < recording.LeastRoom:
		return l, usageError("--max-size of --flight must be at least 1MiB")
	case asksFor(c, "freeze-on") && l.flight == 0:
		return l, usageError("--freeze-on goes with --flight TIME, which says how much to keep")
	}
	l.freezeOn, err = readFreezeConditions(strings.Join(unlessNone(c.StringSlice("freeze-on")), ","))
	return l, err
}
