//go:build integration

package main

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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
// times of a million. That holds where it is of hundreds of samples: the
// error that a few of them say is by chance far too small.
func nearby(got, want, se uint64) bool {
	return math.Abs(float64(got)-float64(want)) <= 5*float64(se)+1
}

// A drawing is what a sample says of a set of blocks, with its standard errors.
type drawing struct{ count, bytes, countSE, bytesSE float64 }

// draw draws a sample of blocks. Each is in it with the share that it has.
func draw(random *rand.Rand, sizes, shares []float64) drawing {
	var d drawing
	for i, p := range shares {
		if random.Float64() >= p {
			continue
		}
		size, variance := sizes[i], (1-p)/(p*p)
		d.count += 1 / p
		d.bytes += size / p
		d.countSE += variance
		d.bytesSE += variance * size * size
	}
	d.countSE, d.bytesSE = math.Sqrt(d.countSE), math.Sqrt(d.bytesSE)
	return d
}

// drawn are the least and the most that a million samples of blocks say.
func drawn(sizes []float64, interval float64) (low, high drawing) {
	shares := make([]float64, len(sizes))
	for i, size := range sizes {
		shares[i] = -math.Expm1(-size / interval)
	}
	random := rand.New(rand.NewPCG(1, 2))
	low = draw(random, sizes, shares)
	high = low
	for range 1_000_000 {
		d := draw(random, sizes, shares)
		low = drawing{min(low.count, d.count), min(low.bytes, d.bytes), min(low.countSE, d.countSE), min(low.bytesSE, d.bytesSE)}
		high = drawing{max(high.count, d.count), max(high.bytes, d.bytes), max(high.countSE, d.countSE), max(high.bytesSE, d.bytesSE)}
	}
	return low, high
}

func TestSampledReport(t *testing.T) {
	t.Parallel()
	out, r := runSampled(t, []string{"--sample-bytes", "1KiB"}, "samples", "run")
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
	if s := r.Sampling; len(s.Intervals) != 1 || s.Intervals[0] != 1<<10 || s.Blocks == 0 || s.Blocks > want.Alloc/5 {
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

// Few blocks are lost, and a small one among them may stand for many or be
// missed: what is found is compared with what samples of the same blocks say.
func TestSampledLeaks(t *testing.T) {
	t.Parallel()
	const interval = 512
	out, r := runSampled(t, []string{"--leaks", "--sample-bytes", strconv.Itoa(interval)}, "leak_bench", "16", filepath.Join(t.TempDir(), "list"), "near")
	sizes := lostSizes(t, string(out))
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
	low, high := drawn(sizes, interval)
	for _, c := range []struct {
		what      string
		got       uint64
		low, high float64
	}{
		{"blocks", found.Count, low.count, high.count},
		{"bytes", found.Bytes, low.bytes, high.bytes},
		{"standard error of the blocks", e.CountSE, low.countSE, high.countSE},
		{"standard error of the bytes", e.BytesSE, low.bytesSE, high.bytesSE},
	} {
		rounded := float64(e.Samples) // each block's bytes are
		if got := float64(c.got); got < c.low-rounded || got > c.high+rounded {
			t.Errorf("%s: %d of %d samples; of a million samples none said less than %.0f or more than %.0f", c.what, c.got, e.Samples, c.low, c.high)
		}
	}
	if e.Samples > uint64(len(sizes)) || found.SeenBytes >= found.Bytes {
		t.Errorf("%d samples of %d blocks, %d of %d bytes seen", e.Samples, len(sizes), found.SeenBytes, found.Bytes)
	}
}

// lostSizes are the sizes of the blocks that leak_bench says it lost.
func lostSizes(t *testing.T, out string) []float64 {
	t.Helper()
	first, rest, _ := strings.Cut(out, "\n")
	var lost, bytes uint64
	if _, err := fmt.Sscanf(first, "ready %d %d", &lost, &bytes); err != nil || lost == 0 {
		t.Fatalf("the program says %q: %v", first, err)
	}
	var sizes []float64
	for _, f := range strings.Fields(rest) {
		size, err := strconv.ParseUint(f, 10, 32)
		if err != nil {
			t.Fatalf("the program says %q: %v", out, err)
		}
		sizes = append(sizes, float64(size))
		bytes -= size
	}
	if uint64(len(sizes)) != lost || bytes != 0 {
		t.Fatalf("the program says %q", out)
	}
	return sizes
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
