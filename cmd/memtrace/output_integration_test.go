//go:build integration

package main

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestEventsThatCannotBeWritten: a full disk is a failure that says how much is missing.
func TestEventsThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = full.Close() }()
	p := startProgram(t, "every_function")
	cmd := memtraceCommand(t, "-p", strconv.Itoa(p.pid()), "--events")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = full, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	awaitTraced(t, p.pid())
	p.proceed()
	p.end()
	_ = cmd.Wait() // its code is looked at
	if code := cmd.ProcessState.ExitCode(); code != exitFailed || !strings.Contains(said.String(), "memtrace: 0 events shown") ||
		!strings.Contains(said.String(), "no space left on device") {
		t.Errorf("code %d, on stderr %s", code, &said)
	}
}
