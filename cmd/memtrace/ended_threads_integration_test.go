//go:build integration

package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
)

// TestEndedThreadsHoldNothing: what glibc keeps of threads that have ended holds no block, and what looks like it
// does. That is so at a program's end, and for a look from outside as it runs, which knows of blocks what is
// usable of them: up to 24 bytes more.
func TestEndedThreadsHoldNothing(t *testing.T) {
	t.Parallel()
	t.Run("at its end", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "report")
		out, _ := runLeaks(t, "run", "--leaks", "--format", "json", "--report", file, "--", testProgram("ended_threads"))
		checkEnded(t, readReport(t, file), string(out), 0)
	})
	for _, how := range [][]string{nil, {"--stop"}} {
		t.Run(fmt.Sprint("from outside ", how), func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(testProgram("ended_threads"))
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			said, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer cmd.Wait()
			defer in.Close()
			var text strings.Builder
			for lines := bufio.NewScanner(said); !strings.Contains(text.String(), "held 7777") && lines.Scan(); {
				fmt.Fprintln(&text, lines.Text())
			}
			file := filepath.Join(t.TempDir(), "report")
			out, _ := runLeaks(t, append([]string{"leaks", "--format", "json", "-p", fmt.Sprint(cmd.Process.Pid)}, how...)...)
			if err := os.WriteFile(file, out, 0o600); err != nil {
				t.Fatal(err)
			}
			checkEnded(t, readReport(t, file), text.String(), 24)
		})
	}
}

// checkEnded compares the definite leaks with the lines "lost SIZE".
func checkEnded(t *testing.T, r *report.Report, said string, usable uint64) {
	t.Helper()
	var want, got sum
	for line := range strings.Lines(said) {
		var size uint64
		if n, _ := fmt.Sscanf(line, "lost %d", &size); n == 1 {
			want = sum{want.count + 1, want.bytes + size}
		}
	}
	for _, l := range r.Leaks {
		if l.Kind != "definite" {
			t.Errorf("%d bytes are called %s", l.Bytes, l.Kind)
		}
		got = sum{got.count + l.Count, got.bytes + l.Bytes}
	}
	if want.count == 0 || got.count != want.count || got.bytes < want.bytes || got.bytes > want.bytes+usable*want.count {
		t.Errorf("%+v lost, want %+v", got, want)
	}
}
