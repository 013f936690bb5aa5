//go:build integration && services

package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// readers is the folder with the programs from npm that read exports.
func readers(t *testing.T) string {
	t.Helper()
	return filepath.Join(strings.TrimSpace(stdoutOf(t, exec.Command("../../testdata/readers/fetch"))), "node_modules")
}

// duckDB answers each query with rows. Integers come as text.
func duckDB(t *testing.T, queries ...string) (out [][]map[string]any) {
	t.Helper()
	cmd := exec.Command(need(t, "node"), append([]string{"../../testdata/readers/duckdb.js"}, queries...)...)
	cmd.Env = append(os.Environ(), "NODE_PATH="+readers(t))
	for line := range strings.Lines(stdoutOf(t, cmd)) {
		var rows []map[string]any
		if err := json.Unmarshal([]byte(line), &rows); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		out = append(out, rows)
	}
	if len(out) != len(queries) {
		t.Fatalf("%d answers to %d queries", len(out), len(queries))
	}
	return out
}

// savedReport is what a Report in JSON says, read without anything of memtrace's.
type savedReport struct {
	Processes []struct {
		ID  int
		Exe string
	}
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

// TestDuckDBSumsSavedReports lets DuckDB sum up what Parquet files of saved Reports say, and compares with their JSON.
func TestDuckDBSumsSavedReports(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var names, queries []string
	for _, name := range []string{"service", "grouped", "untraced", "unprobed", "empty", "lossy.compact", "hostile.compact"} {
		file := filepath.Join(dir, name+".parquet")
		stdoutOf(t, memtraceCommand(t, "export", "../../analyzer/render/testdata/"+name+".json", "--format", "parquet", "-o", file))
		query := "SELECT count(*) AS rows, coalesce(sum(len(stack)), 0) AS frames"
		for _, column := range summedColumns {
			query += fmt.Sprintf(", coalesce(sum(%s), 0) AS %[1]s", column)
		}
		names, queries = append(names, name), append(queries, query+" FROM '"+file+"'")
	}
	for i, rows := range duckDB(t, queries...) {
		var r savedReport
		if err := json.Unmarshal([]byte(contents(t, "../../analyzer/render/testdata", names[i]+".json")), &r); err != nil {
			t.Fatal(err)
		}
		want := r.sums()
		for _, column := range append(summedColumns, "rows", "frames") {
			if got := rows[0][column]; got != fmt.Sprint(want[column]) {
				t.Errorf("%s: %s is %v, the Report has %d", names[i], column, got, want[column])
			}
		}
	}
}

// checkParquet asks DuckDB for the function that a program says it allocated in.
func checkParquet(t *testing.T, file string, bytes, blocks int) {
	from := " FROM read_parquet('" + file + "')"
	answers := duckDB(t,
		"SELECT sum(live_bytes) AS bytes, sum(live_count) AS blocks, any_value(file) AS file, any_value(exe) AS exe"+from+" WHERE function = 'small_blocks' GROUP BY function",
		"SELECT sum(live_bytes) AS bytes"+from+" WHERE list_contains(list_transform(stack, lambda f: f.function), 'small_blocks')",
		"SELECT decode(value) AS version FROM parquet_kv_metadata('"+file+"') WHERE decode(key) = 'memtrace.version'",
	)
	for i, rows := range answers {
		if len(rows) != 1 {
			t.Fatalf("answer %d: %v", i, rows)
		}
	}
	one := answers[0][0]
	if one["bytes"] != fmt.Sprint(bytes) || one["blocks"] != fmt.Sprint(blocks) || !strings.HasSuffix(fmt.Sprint(one["file"]), "two_threads.c") || !strings.HasSuffix(fmt.Sprint(one["exe"]), "two_threads") {
		t.Errorf("%v, want %d bytes in %d blocks", one, bytes, blocks)
	}
	if got := answers[1][0]["bytes"]; got != fmt.Sprint(bytes) {
		t.Errorf("%v bytes below small_blocks, want %d", got, bytes)
	}
	if got := answers[2][0]["version"]; got != version {
		t.Errorf("version %v, want %s", got, version)
	}
}

// checkSpeedscope opens a file in speedscope, as its own command does, and reads the table of its sandwich view.
func checkSpeedscope(t *testing.T, dir string, bytes int) {
	mine := t.TempDir()
	load := fmt.Sprintf("speedscope.loadFileFromBase64('heap.json', %q)", base64.StdEncoding.EncodeToString([]byte(contents(t, dir, "speedscope"))))
	script := filepath.Join(mine, "load.js")
	if err := os.WriteFile(script, []byte(load), 0o600); err != nil {
		t.Fatal(err)
	}
	page := "file://" + filepath.Join(readers(t), "speedscope/dist/release/index.html") + "#view=sandwich&localProfilePath=" + script
	dom := stdoutOf(t, browser(t.Context(), t, mine, "--virtual-time-budget=20000", "--dump-dom", page))
	for row := range strings.SplitSeq(dom, "<tr") {
		if strings.Contains(row, "</span>small_blocks</td>") {
			wantText(t, row, fmt.Sprintf(">%.2f KB (", float64(bytes)/1024))
			wantText(t, dom, "<title>two_threads (")
			return
		}
	}
	t.Errorf("no row of small_blocks in\n%.4000s", dom)
}
