package main

import (
	"context"
	"testing"
)

// TestWatchExitCodes: a crossing is told by the exit code, and so is a figure
// that cannot be read.
func TestWatchExitCodes(t *testing.T) {
	for _, c := range []struct {
		args []string
		want int
	}{
		{[]string{"--watch", "mem.total>1B", "--once"}, 23},
		{[]string{"--watch", "mem.total>1B", "--once", "--error-exitcode", "9"}, 9},
		{[]string{"--watch", "mem.total<1B", "-i", "50ms", "-d", "60ms"}, 0},
		{[]string{"--watch", "mem.total<1B,mem.total>1B", "-i", "50ms", "-d", "60ms"}, 23},
		{[]string{"--watch", "rss(pid:2147483647)>1"}, 1},
		{[]string{"--watch", "mem.total>1B", "--once", "-o", "/nonexistent/x"}, 1},
		{[]string{"--watch", "nope>1"}, 2},
	} {
		if got := run(context.Background(), append([]string{"memtrace", "snapshot", "--stall-budget", "0"}, c.args...)); got != c.want {
			t.Errorf("memtrace snapshot %v exits with %d, want %d", c.args, got, c.want)
		}
	}
}
