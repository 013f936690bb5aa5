//go:build integration

package main

import (
	"fmt"
	"testing"
)

// A process that starts many children, one after the other, must not use up memtrace's file descriptors: with checks
// for leaks, too, nothing is kept open of a child that has ended. The shell looks at its parent, which is memtrace.
func TestEndedChildrenHoldNoDescriptors(t *testing.T) {
	t.Parallel()
	const few, many = 3, 30
	script := fmt.Sprintf(`
		children() { i=0; while [ $i -lt $1 ]; do ( : ); i=$((i + 1)); done; }
		open() { set -- /proc/$PPID/fd/*; n=$#; }
		children %d; open; before=$n
		children %d
		until open; [ $n -lt $((before + %d)) ]; do :; done
		echo done`, few, many, many)
	cmd := memtraceCommand(t, "run", "--leaks", "--report", t.TempDir()+"/report", "--", "sh", "-c", script)
	out, err := cmd.CombinedOutput()
	if err != nil || string(out) != "done\n" {
		t.Errorf("%v\n%s", err, out)
	}
}
