//go:build integration && services

package main

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// savedReport is what a Report in JSON says, read without anything of memtrace's.
type savedReport struct {
	Sites []struct {
		ID             int
		LiveBytes      uint64 `json:"live_bytes"`
		LiveCount      uint64 `json:"live_count"`
		AllocBytes     uint64 `json:"alloc_bytes"`
		AllocCount     uint64 `json:"alloc_count"`
		FreeCount      uint64 `json:"free_count"`
		TemporaryCount uint64 `json:"temporary_count"`
		PeakLiveBytes  uint64 `json:"peak_live_bytes"`
		ResidentBytes  uint64 `json:"resident_bytes"`
		UntouchedBytes uint64 `json:"untouched_bytes"`
		SwappedBytes   uint64 `json:"swapped_bytes"`
		Faults         uint64
		Stack          []json.RawMessage
	}
	Regions []struct {
		LiveBytes uint64 `json:"live_bytes"`
		LiveCount uint64 `json:"live_count"`
		Stack     []json.RawMessage
	}
	Leaks []struct {
		Site         int
		Kind         string
		Growing      bool
		Bytes, Count uint64
	}
}

// sums are the totals of the columns that a table of the Report has.
func (r *savedReport) sums() map[string]uint64 {
	out := map[string]uint64{"rows": uint64(len(r.Sites) + len(r.Regions))}
	growing := make(map[int]bool)
	for _, l := range r.Leaks {
		if l.Growing || l.Kind == "growing" {
			growing[l.Site] = true
		}
		if l.Kind == "definite" || l.Kind == "indirect" || l.Kind == "possible" {
			out["leaked_bytes"] += l.Bytes
			out["leaked_count"] += l.Count
		}
	}
	for _, s := range r.Sites {
		for name, v := range map[string]uint64{
			"live_bytes": s.LiveBytes, "live_count": s.LiveCount, "peak_bytes": s.PeakLiveBytes, "allocated_bytes": s.AllocBytes, "allocated_count": s.AllocCount,
			"freed_bytes": s.AllocBytes - min(s.LiveBytes, s.AllocBytes), "freed_count": s.FreeCount, "temporary_count": s.TemporaryCount,
			"resident_bytes": s.ResidentBytes, "untouched_bytes": s.UntouchedBytes, "swapped_bytes": s.SwappedBytes, "faults_count": s.Faults,
			"frames": uint64(len(s.Stack)),
		} {
			out[name] += v
		}
		if growing[s.ID] {
			out["growing_bytes"] += s.LiveBytes
		}
	}
	for _, g := range r.Regions {
		out["mapped_bytes"] += g.LiveBytes
		out["mapped_count"] += g.LiveCount
		out["frames"] += uint64(len(g.Stack))
	}
	return out
}

var summedColumns = []string{"live_bytes", "live_count", "peak_bytes", "allocated_bytes", "allocated_count", "freed_bytes", "freed_count", "temporary_count",
	"leaked_bytes", "leaked_count", "growing_bytes", "resident_bytes", "untouched_bytes", "swapped_bytes", "faults_count", "mapped_bytes", "mapped_count"}

// savedReports are Reports that the writers' tests keep, and folder where they are.
var savedReports = []string{"service", "grouped", "untraced", "unprobed", "empty", "lossy.compact", "hostile.compact"}

const savedFolder = "../../analyzer/render/testdata"

func readSaved(t *testing.T, name string) (r savedReport) {
	t.Helper()
	if err := json.Unmarshal([]byte(contents(t, savedFolder, name+".json")), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// exportSaved writes a saved Report in a format, and returns the file.
func exportSaved(t *testing.T, name, format string, args ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name+"."+format)
	args = append([]string{"export", filepath.Join(savedFolder, name+".json"), "--format", format, "-o", file}, args...)
	stdoutOf(t, memtraceCommand(t, args...))
	return file
}

// TestDuckDBSumsSavedReports lets DuckDB sum up what tables of saved Reports say, and compares with their JSON.
func TestDuckDBSumsSavedReports(t *testing.T) {
	t.Parallel()
	sums := func(cast string) string { // of CSV: a table without rows has no types
		text := "SELECT count(*) AS rows"
		for _, column := range summedColumns {
			text += fmt.Sprintf(", coalesce(sum(%s%s), 0) AS %[1]s", column, cast)
		}
		return text
	}
	var queries []string
	for _, name := range savedReports {
		queries = append(queries,
			sums("")+", coalesce(sum(len(stack)), 0) AS frames FROM '"+exportSaved(t, name, "parquet")+"'",
			sums("::BIGINT")+" FROM read_csv('"+exportSaved(t, name, "csv")+"', header = true, delim = ',', quote = '\"')")
	}
	for i, rows := range duckDB(t, queries...) {
		name, format := savedReports[i/2], []string{"parquet", "csv"}[i%2]
		r := readSaved(t, name)
		want := r.sums()
		for column, got := range rows[0] {
			if fmt.Sprint(got) != fmt.Sprint(want[column]) {
				t.Errorf("%s, %s: %s is %v, the Report has %d", name, format, column, got, want[column])
			}
		}
		if len(rows[0]) < len(summedColumns)+1 {
			t.Errorf("%s, %s: %v", name, format, rows)
		}
	}
}

// pprofColumns are the sample types and what they are called in tables.
var pprofColumns = map[string]string{
	"alloc_objects": "allocated_count", "alloc_space": "allocated_bytes", "inuse_objects": "live_count", "inuse_space": "live_bytes",
	"peak_space": "peak_bytes", "freed_objects": "freed_count", "freed_space": "freed_bytes", "temporary_objects": "temporary_count",
	"leaked_objects": "leaked_count", "leaked_space": "leaked_bytes", "growing_space": "growing_bytes", "resident_space": "resident_bytes",
	"untouched_space": "untouched_bytes", "swapped_space": "swapped_bytes", "page_faults": "faults_count",
	"mapped_regions": "mapped_count", "mapped_space": "mapped_bytes",
}

// TestPprofSumsSavedReports sums up the samples that go tool pprof finds, for each of their types.
func TestPprofSumsSavedReports(t *testing.T) {
	t.Parallel()
	sample := regexp.MustCompile(`^ *([0-9 ]+): `)
	for _, name := range savedReports {
		r := readSaved(t, name)
		_, text, _ := strings.Cut(stdoutOf(t, exec.Command("go", "tool", "pprof", "-raw", exportSaved(t, name, "pprof"))), "Samples:\n")
		header, samples, _ := strings.Cut(text, "\n")
		samples, _, _ = strings.Cut(samples, "Locations\n")
		types, got := strings.Fields(header), make(map[string]uint64)
		for line := range strings.Lines(samples) {
			m := sample.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			for i, text := range strings.Fields(m[1]) {
				n, err := strconv.ParseUint(text, 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				kind, _, _ := strings.Cut(types[i], "/")
				got[kind] += n
			}
		}
		want := r.sums()
		for kind, column := range pprofColumns {
			if !strings.Contains(header, kind+"/") || got[kind] != want[column] {
				t.Errorf("%s: %s is %d, the Report has %d", name, kind, got[kind], want[column])
			}
		}
	}
}

// TestMassifOfEachKind reads the total of each kind of bytes where ms_print shows it.
func TestMassifOfEachKind(t *testing.T) {
	t.Parallel()
	r := readSaved(t, "service")
	want := r.sums()
	for _, column := range summedColumns {
		kind, isBytes := strings.CutSuffix(column, "_bytes")
		if !isBytes || want[column] == 0 {
			continue
		}
		out := stdoutOf(t, exec.Command(need(t, "ms_print"), exportSaved(t, "service", "massif", "--kind", kind)))
		wantText(t, out, "100.00% ("+commas(int(want[column]))+"B) ")
	}
}
