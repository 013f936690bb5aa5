//go:build integration && services

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestExportsInTheirReaders traces a program that says what it holds, and lets each format's
// own reader say it again. --top limits what is shown, never what is exported.
func TestExportsInTheirReaders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	args := []string{"run", "--top", "1", "--report", filepath.Join(dir, "report.txt")}
	for _, f := range []string{"pprof", "folded", "html", "flamegraph", "csv", "parquet", "speedscope", "massif:allocated", "dhat"} {
		args = append(args, "--export", f+"="+filepath.Join(dir, strings.ReplaceAll(f, ":", "-")))
	}
	out, err := memtraceCommand(t, append(args, "--", testProgram("two_threads"), "run")...).Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var said struct {
		Total struct {
			Bytes int `json:"live_bytes"`
			Count int `json:"live_count"`
		} `json:"total"`
	}
	if err := json.Unmarshal(out, &said); err != nil || said.Total.Bytes == 0 {
		t.Fatalf("%v: %s", err, out)
	}
	bytes, blocks := said.Total.Bytes, said.Total.Count
	for name, test := range map[string]func(t *testing.T){
		"pprof": func(t *testing.T) {
			for _, c := range []struct{ index, unit, figure string }{{"inuse_space", "B", fmt.Sprint(bytes, "B")}, {"alloc_objects", "count", fmt.Sprint(blocks)}} {
				out := stdoutOf(t, exec.Command("go", "tool", "pprof", "-top", "-unit="+c.unit, "-sample_index="+c.index, filepath.Join(dir, "pprof")))
				wantRow(t, out, "small_blocks", c.figure)
			}
		},
		"massif": func(t *testing.T) {
			out := stdoutOf(t, exec.Command(need(t, "ms_print"), filepath.Join(dir, "massif-allocated")))
			wantRow(t, out, "small_blocks", "("+commas(bytes)+"B)")
		},
		"folded": func(t *testing.T) { wantRow(t, contents(t, dir, "folded"), ";small_blocks", fmt.Sprint(bytes)) },
		"csv": func(t *testing.T) {
			wantRow(t, strings.ReplaceAll(contents(t, dir, "csv"), ",", " "), "small_blocks", fmt.Sprint(bytes), fmt.Sprint(blocks))
		},
		"parquet": func(t *testing.T) { checkParquet(t, filepath.Join(dir, "parquet"), bytes, blocks) },
		"speedscope": func(t *testing.T) {
			checkSpeedscope(t, filepath.Join(dir, "speedscope"), "heap.json", "small_blocks", fmt.Sprintf("%.2f KB", float64(bytes)/1024))
		},
		"pprof in speedscope": func(t *testing.T) {
			checkSpeedscope(t, filepath.Join(dir, "pprof"), "heap.pb.gz", "small_blocks", fmt.Sprintf("%.2f KB", float64(bytes)/1024))
		},
		"folded in speedscope": func(t *testing.T) {
			checkSpeedscope(t, filepath.Join(dir, "folded"), "heap.txt", "small_blocks", commas(bytes))
		},
		"dhat": func(t *testing.T) { checkDHAT(t, dir, bytes, blocks) },
		"flamegraph": func(t *testing.T) {
			dom := domOf(t, dir, "flamegraph", "flame.svg", "#q=small_blocks")
			wantText(t, dom, "small_blocks\n781 KiB in "+commas(blocks)+" blocks", "search: small_blocks  1 frame, 99.9 %", ` hit"`)
		},
		"html": func(t *testing.T) {
			dom := domOf(t, dir, "html", "page.html", "#kind=allocated&q=small_blocks&i=1")
			body, _, _ := strings.Cut(dom, `<script type="application/json"`)
			wantText(t, body, "1 frame found: 781 KiB, 99.9 %", "<td>781 KiB</td><td>99.9</td>", "<td>"+commas(blocks)+"</td>", ">small_blocks</td>", "two_threads.c:", "<title>memtrace: two_threads (")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

// checkDHAT opens a file in Valgrind's viewer, as its button does.
func checkDHAT(t *testing.T, dir string, bytes, blocks int) {
	viewer := "/usr/libexec/valgrind/dh_view."
	page := contents(t, filepath.Dir(viewer), "dh_view.html")
	script := "<script>" + contents(t, filepath.Dir(viewer), "dh_view.js") + "</script>"
	load := "onLoad(); tryFunc(() => { gFilename = 'memtrace'; gData = JSON.parse(document.getElementById('data').textContent); buildTree(); displayTree(); })"
	data := `<script type="application/json" id="data">` + contents(t, dir, "dhat") + "</script>"
	page = strings.Replace(page, `<script src="dh_view.js"></script>`, script, 1)
	page = strings.Replace(page, `onload="onLoad()"></body>`, `onload="`+load+`">`+data+"</body>", 1)
	if err := os.WriteFile(filepath.Join(dir, "dh_view"), []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	wantText(t, domOf(t, dir, "dh_view", "dh_view.html", ""), commas(bytes)+" bytes", commas(blocks)+" blocks", "small_blocks", "PID: ")
}

// domOf is what a browser makes of a file under another name.
func domOf(t *testing.T, dir, file, name, fragment string) string {
	t.Helper()
	mine := t.TempDir()
	path := filepath.Join(mine, name)
	if err := os.WriteFile(path, []byte(contents(t, dir, file)), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	return stdoutOf(t, browser(ctx, t, mine, "--dump-dom", "file://"+path+fragment))
}

func contents(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func stdoutOf(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v: %s", cmd.Args, err, &complaints)
	}
	return string(out)
}

// wantRow looks for a line with a name and all figures, as words.
func wantRow(t *testing.T, text, name string, figures ...string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if !strings.Contains(line, name) {
			continue
		}
		missing := 0
		for _, f := range figures {
			if !strings.Contains(" "+strings.TrimSpace(line)+" ", " "+f+" ") {
				missing++
			}
		}
		if missing == 0 {
			return
		}
	}
	t.Errorf("no line has %s with %v in\n%.4000s", name, figures, text)
}

func wantText(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("lacks %q:\n%.6000s", part, text)
		}
	}
}

// commas writes a number as people do.
func commas(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
