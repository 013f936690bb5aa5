//go:build integration

package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
)

// runSampled runs a program under trace and returns its output and the last Report.
func runSampled(t *testing.T, flags []string, name string, args ...string) ([]byte, report.Report) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report")
	all := append([]string{"run", "--format", "json", "--report", file}, flags...)
	all = append(append(all, "--", testProgram(name)), args...)
	out, code := runLeaks(t, all...)
	if code != 0 {
		t.Fatalf("exit code %d", code)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r report.Report
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	return out, r
}

// nearby says whether an estimate is as near as chance lets it be 999,999
// times of a million.
func nearby(got, want, se uint64) bool {
	return math.Abs(float64(got)-float64(want)) <= 5*float64(se)+1
}

func TestSampledReport(t *testing.T) {
	t.Parallel()
	out, r := runSampled(t, []string{"--sample-bytes", "16KiB"}, "samples", "run")
	var says struct {
		Total struct {
			Alloc, Realloc uint64
			AllocBytes     uint64 `json:"alloc_bytes"`
			ReallocBytes   uint64 `json:"realloc_bytes"`
			LiveBytes      uint64 `json:"live_bytes"`
		}
	}
	if err := json.Unmarshal(out, &says); err != nil {
		t.Fatal(err)
	}
	want, h := says.Total, r.Processes[0].Heap
	if r.Sampling == nil || h.Estimate == nil {
		t.Fatal("the Report does not say that its figures are estimates")
	}
	if s := r.Sampling; len(s.Intervals) != 1 || s.Intervals[0] != 16<<10 || s.Blocks == 0 || s.Blocks > want.Alloc/10 {
		t.Errorf("the sample is %+v of %d blocks", *s, want.Alloc)
	}
	e := h.Estimate
	for _, c := range []struct {
		what          string
		got, want, se uint64
	}{
		{"allocated bytes", h.AllocBytes, want.AllocBytes + want.ReallocBytes, e.AllocBytesSE},
		{"allocations", h.AllocCount, want.Alloc + want.Realloc, e.AllocCountSE},
		{"live bytes", h.LiveBytes, want.LiveBytes, e.LiveBytesSE},
		{"alloc events", r.Events.Alloc, want.Alloc, e.AllocCountSE},
	} {
		if !nearby(c.got, c.want, c.se) {
			t.Errorf("%s: %d ± %d, the program says %d", c.what, c.got, c.se, c.want)
		}
	}
	for _, s := range r.Sites {
		if s.Function == "of_huge" && (s.LiveBytes != 8<<20 || s.AllocCount != 16) {
			t.Errorf("blocks of 1 MiB: %d bytes live of %d blocks, want exactly %d of 16", s.LiveBytes, s.AllocCount, 8<<20)
		}
	}
	if r.Events.UnmatchedFree != 0 || r.Events.Lost != 0 {
		t.Errorf("%d unmatched frees, %d lost events", r.Events.UnmatchedFree, r.Events.Lost)
	}
}

func TestSampledLeaks(t *testing.T) {
	t.Parallel()
	out, r := runSampled(t, []string{"--leaks", "--sample-bytes", "1KiB"}, "leak_bench", "16", filepath.Join(t.TempDir(), "list"), "near")
	var lost, bytes uint64
	if _, err := fmt.Sscanf(string(out), "ready %d %d", &lost, &bytes); err != nil || lost == 0 {
		t.Fatalf("the program says %q: %v", out, err)
	}
	var found *report.Leak
	for i := range r.Leaks {
		if l := &r.Leaks[i]; l.Kind == "definite" {
			if found != nil {
				t.Fatalf("two verdicts: %+v, %+v", found, l)
			}
			found = l
		}
	}
	if found == nil || found.Estimate == nil {
		t.Fatalf("no verdict, or no estimate in it: %+v", found)
	}
	e := found.Estimate
	if !nearby(found.Bytes, bytes, e.BytesSE) || !nearby(found.Count, lost, e.CountSE) || e.Samples > lost {
		t.Errorf("found %d ± %d bytes in %d ± %d blocks (%d in the sample), the program lost %d in %d",
			found.Bytes, e.BytesSE, found.Count, e.CountSE, e.Samples, bytes, lost)
	}
}

// A forked child frees copies of its parent's blocks, which only the parent's
// allocations put into the sample.
func TestSampledChildrenFreeTheirCopies(t *testing.T) {
	t.Parallel()
	const kept = 50*20/4 + 8
	// A block of 24 bytes or more is always in this sample.
	_, r := runSampled(t, []string{"--sample-bytes", "1"}, "samples", "run", "50", "fork")
	if len(r.Processes) != 2 {
		t.Fatalf("%d processes, want the program and its child", len(r.Processes))
	}
	parent, child := r.Processes[0].Heap, r.Processes[1].Heap
	if parent.LiveCount != kept || child.FreeCount != kept || child.LiveCount != 0 {
		t.Errorf("the parent holds %d blocks, the child freed %d and holds %d, want %d, %d and 0",
			parent.LiveCount, child.FreeCount, child.LiveCount, kept, kept)
	}
}
