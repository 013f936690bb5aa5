//go:build integration && services

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
)

// heaptrack_print finds in the export of a real trace what the Report has and what the program says of itself: its
// allocations, what lives at the end, the peak, and the temporary ones, which a single thread frees at once.
func TestHeaptrackPrintFindsTheReportsFigures(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	recorded, reported, exported := filepath.Join(dir, "trace.memtrace"), filepath.Join(dir, "report.json"), filepath.Join(dir, "heaptrack.zst")
	// One thread frees each block at once, 5,000 times.
	trace := memtraceCommand(t, "run", "-o", recorded, "--format", "json", "--report", reported, "--", testProgram("churn"), "run", "4", "1", "0", "5000")
	said := stdoutOf(t, trace)
	if !strings.Contains(said, "churn_loop") {
		t.Fatal(said)
	}
	p := lastReport(t, reported)
	stdoutOf(t, memtraceCommand(t, "export", recorded, "--format", "heaptrack", "-o", exported))
	for cost, want := range map[string]uint64{
		"allocations": p.Heap.AllocCount, "leaked": p.Heap.LiveBytes, "peak": p.Heap.PeakBytes, "temporary": p.Heap.TemporaryCount,
	} {
		stacks := filepath.Join(dir, cost)
		text := stdoutOf(t, exec.Command(need(t, "heaptrack_print"), "--disable-builtin-suppressions", "--flamegraph-cost-type", cost, "-F", stacks, exported))
		sum, loop := heaptrackCost(t, stacks, "churn_loop")
		if sum != want || want == 0 {
			t.Errorf("%s: heaptrack_print has %d, the Report %d: %s", cost, sum, want, text)
		}
		if cost == "allocations" && loop != 5000 || cost == "temporary" && loop != 5000 || cost == "leaked" && loop != 0 {
			t.Errorf("%s of churn_loop: %d", cost, loop)
		}
		if !strings.Contains(text, fmt.Sprintf("calls to allocation functions: %d ", p.Heap.AllocCount)) {
			t.Error(text)
		}
	}
}

// lastReport is the only process of a saved Report.
func lastReport(t *testing.T, path string) *report.Process {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	var r report.Report
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &r); err != nil || len(r.Processes) != 1 {
		t.Fatalf("%v: %d processes", err, len(r.Processes))
	}
	return &r.Processes[0]
}

// heaptrackCost adds up stacks as heaptrack_print writes them, in all and of one innermost function.
func heaptrackCost(t *testing.T, path, function string) (sum, of uint64) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		n, err := strconv.ParseUint(words[len(words)-1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if sum += n; strings.Contains(line, function) {
			of += n
		}
	}
	return sum, of
}
