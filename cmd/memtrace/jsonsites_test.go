//go:build linux && !viewer

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
)

// JSON lists 10,000 sites unless --top says otherwise, those of leaks always, and has what the others hold as sums.
func TestJSONListsTenThousandSites(t *testing.T) {
	const sites = 10_050
	r := report.Report{Schema: report.Schema, Final: true, Processes: []report.Process{{ID: 1, PID: 7, Comm: "many"}}}
	for i := range sites { // that at i holds one block of sites-i bytes
		r.Sites = append(r.Sites, report.Site{ID: i, Process: 1, PID: 7, Function: "f", LiveBytes: uint64(sites - i), LiveCount: 1, AllocBytes: 100, AllocCount: 2, FreeCount: 1})
	}
	r.Leaks = []report.Leak{{Site: sites - 1, Process: 1, Kind: "definite", Bytes: 1, Count: 1}}
	file := filepath.Join(t.TempDir(), "many.json")
	text, err := json.Marshal(&r)
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		flags        []string
		listed, left int
		held         uint64 // by those left out
	}{
		{nil, 10_001, 49, 49*50/2 + 49}, // of the last 50, with 50 to 1 bytes, the last one has a leak
		{[]string{"--top", "0"}, sites, 0, 0},
		{[]string{"--top", "2"}, 3, sites - 3, 10_048*10_049/2 - 1},
	} {
		out, complaints, code := memtraceSays(t, append([]string{"report", file, "--format", "json"}, c.flags...)...)
		var got report.Report
		if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 {
			t.Fatalf("%v: exit code %d, %v, %s", c.flags, code, err, complaints)
		}
		if len(got.Sites) != c.listed || got.SitesMore != c.left || got.Sites[c.listed-1].ID != sites-1 {
			t.Errorf("%v: %d sites are listed, the last is %d, and %d are left out; want %d, %d, %d",
				c.flags, len(got.Sites), got.Sites[len(got.Sites)-1].ID, got.SitesMore, c.listed, sites-1, c.left)
		}
		want := report.SiteSum{LiveBytes: c.held, LiveCount: uint64(c.left), AllocBytes: 100 * uint64(c.left), AllocCount: 2 * uint64(c.left), FreeCount: uint64(c.left)}
		if c.left == 0 && got.SitesMoreSum != nil || c.left > 0 && (got.SitesMoreSum == nil || *got.SitesMoreSum != want) {
			t.Errorf("%v: those left out have %+v, want %+v", c.flags, got.SitesMoreSum, want)
		}
	}
}
