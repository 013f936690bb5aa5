//go:build integration

package main

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// foreignLoad measures how busy others keep the machine.
type foreignLoad struct{ busy, idle, own time.Duration }

// quiet is the part of the machine that others may have where a test asks for all that memtrace can do.
const quiet = 0.1

// startForeignLoad begins to measure. What the test starts later is its own,
// provided that it is waited for before the end.
func startForeignLoad(t *testing.T) foreignLoad {
	t.Helper()
	return readLoad(t)
}

// share is the part of all processors' time that others had since the start.
func (f foreignLoad) share(t *testing.T) float64 {
	t.Helper()
	now := readLoad(t)
	busy, idle, own := now.busy-f.busy, now.idle-f.idle, now.own-f.own
	return max(0, float64(busy-own)/float64(busy+idle))
}

// readLoad reads the machine's processor times (proc_stat(5)), and those of this
// process and its children.
func readLoad(t *testing.T) (f foreignLoad) {
	t.Helper()
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(stat), "\n")
	const tick = 10 * time.Millisecond               // USER_HZ
	for i, word := range strings.Fields(line)[1:9] { // user, nice, system, idle, iowait, irq, softirq, steal
		ticks, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		spent := time.Duration(ticks) * tick
		if i == 3 || i == 4 {
			f.idle += spent
		} else {
			f.busy += spent
		}
	}
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var r unix.Rusage
		if err := unix.Getrusage(who, &r); err != nil {
			t.Fatal(err)
		}
		f.own += time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	return f
}
