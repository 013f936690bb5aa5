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

// checkSpeedscope opens a file in speedscope, as its own command does, and looks for a function and its figure in
// the table of the sandwich view. The name tells speedscope the format.
func checkSpeedscope(t *testing.T, file, name, function, figure string) {
	mine := t.TempDir()
	data := base64.StdEncoding.EncodeToString([]byte(contents(t, filepath.Dir(file), filepath.Base(file))))
	script := filepath.Join(mine, "load.js")
	if err := os.WriteFile(script, fmt.Appendf(nil, "speedscope.loadFileFromBase64(%q, %q)", name, data), 0o600); err != nil {
		t.Fatal(err)
	}
	page := "file://" + filepath.Join(readers(t), "speedscope/dist/release/index.html") + "#view=sandwich&localProfilePath=" + script
	dom := stdoutOf(t, browser(t.Context(), t, mine, "--virtual-time-budget=20000", "--dump-dom", page))
	for row := range strings.SplitSeq(dom, "<tr") {
		if strings.Contains(row, "</span>"+function+"</td>") {
			wantText(t, row, ">"+figure+" (")
			return
		}
	}
	t.Errorf("no row of %s in\n%.4000s", function, dom)
}
