//go:build integration

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/memtrace/memtrace/analyzer/report"
)

// A saved Report and a recording say when, where, by which version and by what command they were made; the command is
// left out if asked for.
func TestRecordingsAndReportsSayWhereTheyComeFrom(t *testing.T) {
	t.Parallel()
	host, err := exec.Command("uname", "-n").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, without := range []bool{false, true} {
		dir := t.TempDir()
		saved, recorded := filepath.Join(dir, "saved.json"), filepath.Join(dir, "recorded")
		args := []string{"run", "--format", "json", "--report", saved, "-o", recorded}
		if without {
			args = append(args, "--no-command-lines")
		}
		args = append(args, "--", "true")
		before := time.Now().Add(-time.Second)
		cmd := memtraceCommand(t, args...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for _, file := range []string{saved, recorded, recorded + "@0s"} {
			text, err := memtraceCommand(t, "report", file, "--format", "json").Output()
			if err != nil {
				t.Fatal(err)
			}
			var r report.Report
			if err := json.Unmarshal(text, &r); err != nil || r.Made == nil {
				t.Fatalf("%s: %v, made %v", file, err, r.Made)
			}
			at, err := time.Parse(time.RFC3339, r.Made.At)
			if err != nil || at.Before(before) || at.After(time.Now()) {
				t.Errorf("%s: made at %s: %v", file, r.Made.At, err)
			}
			want := cmd.Args
			if without {
				want = nil
			}
			if r.Made.Host != strings.TrimSpace(string(host)) || r.Made.Version == "" || !slices.Equal(r.Made.Command, want) {
				t.Errorf("%s: %+v, want host %s and command %q", file, r.Made, host, want)
			}
			shown, err := memtraceCommand(t, "report", file).Output()
			if err != nil || !strings.HasPrefix(string(shown), "Made at "+r.Made.At+" on "+r.Made.Host) || strings.Contains(string(shown), "run --format json") == without {
				t.Errorf("%s is shown as %v\n%s", file, err, shown)
			}
		}
		_ = os.RemoveAll(dir)
	}
}
