//go:build integration && services

package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The command line is in a recording unless it is to be left out; the program's environment and memory never are.
func TestRecordingKeepsSecrets(t *testing.T) {
	t.Parallel()
	const secret, variable, contents = "--password=hunter2", "tok3n-of-the-environment", "wh4t-is-in-memory"
	for _, left := range []bool{false, true} {
		file := filepath.Join(t.TempDir(), "trace.memtrace")
		args := []string{"record", "-o", file, "--compression", "none"}
		if left {
			args = append(args, "--no-command-lines")
		}
		cmd := memtraceCommand(t, append(args, "--", "python3", "-c", "import sys; x = ['"+contents[:9]+"' + '"+contents[9:]+"' for i in range(1000)]", secret)...)
		cmd.Env = append(cmd.Env, "TOKEN="+variable)
		if out, code := finishLeaks(t, cmd); code != 0 {
			t.Fatalf("exit code %d: %s", code, out)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if has := bytes.Contains(text, []byte(secret)); has == left {
			t.Errorf("--no-command-lines %v: the command line is there: %v", left, has)
		}
		if bytes.Contains(text, []byte(variable)) || bytes.Contains(text, []byte(contents)) {
			t.Error("the environment or the memory is in the recording")
		}
	}
}

// On a terminal, record says how it goes, and what it wrote at Ctrl-C.
func TestRecordingInATerminal(t *testing.T) {
	t.Parallel()
	c := program(t, "churn", "3", "1", "0", "0", "1000")
	file := filepath.Join(t.TempDir(), "trace.memtrace")
	x := startInTerminal(t, fmt.Sprintf("record -o %s -p %d", file, c.cmd.Process.Pid))
	x.until(`recording \d+s  \d+ events`)
	if _, err := io.WriteString(c.in, "\n"); err != nil {
		t.Fatal(err)
	}
	x.until(`recording \d+s  [1-9]\d{4,} events  [\d.]+ \w+, [\d.]+ \w+/s  nothing lost  \(Ctrl-C ends\)`)
	x.keys("C-c")
	screen := strings.Join(x.until(`ended 0`), "\n")
	if !regexp.MustCompile(`(?s)memtrace: recorded [1-9]\d+ events in [\d.]+m?s to .*trace\.memtrace \([\d.]+ \w+\): memtrace report`).MatchString(strings.ReplaceAll(screen, "\n", "")) {
		t.Errorf("the screen has\n%s", screen)
	}
	if strings.Contains(screen, "Ctrl-C ends") {
		t.Errorf("the line of the progress is still there:\n%s", screen)
	}
}
