//go:build integration

package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// TestGridOfOneBlockLeaks compares the verdict on each of many programs that lose one block with what they say
// themselves: nothing that the allocator, the kernel's trampoline or exit has left on the stack holds a block.
func TestGridOfOneBlockLeaks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ program, end, when string }{
		{"leak_grid_O0", "return", exitAfter}, {"leak_grid_O2", "return", exitAfter},
		{"leak_grid_O2", "exit", exitAfter}, {"leak_grid_O0", "return", exitBefore},
	} {
		t.Run(c.program+"/"+c.end+"/"+c.when, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "report")
			out, code := runLeaks(t, "run", "--leaks", "--at-exit", c.when, "--top", "0", "--format", "json", "--report", file, "--",
				testProgram(c.program), c.end)
			if code != 0 {
				t.Fatalf("exit code %d", code)
			}
			checkGrid(t, file, string(out))
		})
	}
}

// checkGrid compares the verdicts by process with the lines "lost PID SIZE".
func checkGrid(t *testing.T, file, said string) {
	t.Helper()
	r := readReport(t, file)
	pids, got := make(map[int]int), make(map[int][]string)
	for _, s := range r.Sites {
		pids[s.ID] = s.PID
	}
	for _, l := range r.Leaks {
		got[pids[l.Site]] = append(got[pids[l.Site]], fmt.Sprintf("%d %s, %d bytes", l.Count, l.Kind, l.Bytes))
	}
	cells := 0
	for line := range strings.Lines(said) {
		var pid, size int
		if n, _ := fmt.Sscanf(line, "lost %d %d", &pid, &size); n != 2 {
			continue
		}
		cells++
		if want := fmt.Sprintf("[1 definite, %d bytes]", size); fmt.Sprint(got[pid]) != want {
			t.Errorf("process %d: %q, want %s", pid, got[pid], want)
		}
	}
	if cells < 50 || len(got) != cells {
		t.Errorf("%d processes with leaks, the program speaks of %d", len(got), cells)
	}
}
