//go:build linux && !viewer

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A saved Report is grouped by what is asked for, also where it was not when it was made, and not where sites are missing.
func TestReportIsGroupedAnew(t *testing.T) {
	file := queriedFile(t)
	for _, c := range []struct{ by, has string }{{"function", `"key":"grow","sites":1,"live_bytes":10000,"live_count":1`}, {"file", `"key":"/src/lines.c","sites":2,"live_bytes":10640,"live_count":11`},
		{"size", `"size":64,"sites":1,"alloc_count":100`}} {
		out, complaints, code := memtraceSays(t, "report", file, "--by", c.by, "--format", "json")
		if plain := strings.NewReplacer(" ", "", "\n", "").Replace(out); code != 0 || !strings.Contains(plain, c.has) {
			t.Errorf("--by %s: exit code %d, %s\nlacks %s:\n%.1500s", c.by, code, complaints, c.has, out)
		}
	}
	cut := filepath.Join(t.TempDir(), "cut.json")
	out, _, _ := memtraceSays(t, "report", file, "--top", "1", "--format", "json")
	if err := os.WriteFile(cut, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, complaints, code := memtraceSays(t, "report", cut, "--by", "function"); code != 1 || !strings.Contains(complaints, "leaves out some of its sites (1)") {
		t.Errorf("where a site is missing: exit code %d, %s", code, complaints)
	}
	if _, complaints, code := memtraceSays(t, "report", file, "--by", "thread"); code != 2 || !strings.Contains(complaints, "those of all threads") {
		t.Errorf("by thread: exit code %d, %s", code, complaints)
	}
}

// --frames says how much of each stack is shown.
func TestReportFrames(t *testing.T) {
	file := queriedFile(t)
	for frames, has := range map[string]bool{"1": false, "0": true, "12": true} {
		out, _, code := memtraceSays(t, "report", file, "--frames", frames)
		if shows := strings.Contains(out, "main"); code != 0 || shows != has {
			t.Errorf("--frames %s: exit code %d, shows main: %v\n%s", frames, code, shows, out)
		}
	}
}
