//go:build integration

package main

import (
	"path/filepath"
	"testing"
)

// TestChildrenOfAReplacedProgram: a program that another executed in its place has the C library
// elsewhere. Its children are attached to as those of the first program would be.
func TestChildrenOfAReplacedProgram(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "report")
	cmd := memtraceCommand(t, "run", "--format", "json", "--report", file, "--", "sh", "-c", `exec sh -c '(echo a); (echo b); exit 3'`)
	if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 3 || string(out) != "a\nb\n" {
		t.Errorf("exit code %d, output %q, want 3 and that of the children alone", cmd.ProcessState.ExitCode(), out)
	}
	if r := readReport(t, file); len(r.Warnings) != 0 || len(r.Processes) != 3 {
		t.Errorf("%d processes, warnings %q, want 3 and none", len(r.Processes), r.Warnings)
	}
}
