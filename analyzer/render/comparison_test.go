package render

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/compare"
	"github.com/memtrace/memtrace/analyzer/report"
)

// comparisons are pairs of Reports made by hand, by name, and what is asked of them.
func comparisons(t *testing.T, name string) *compare.Diff {
	t.Helper()
	before, after, by := serviceReport(), serviceReport(), "site"
	before.SitesMore, after.SitesMore = 0, 0
	figure := compare.Figure{Kind: "live", Title: "live", Thing: "block", Bytes: true, Count: true}
	grow(after)
	switch name {
	case "function", "file", "module", "process":
		by = name
	case "same":
		after = before
	case "sampled":
		before.Sampling, after.Sampling = &report.Sampling{Intervals: []uint64{4096}, Blocks: 3000}, &report.Sampling{Intervals: []uint64{65536}, Blocks: 200}
	case "omitted":
		before.SitesMore = 132
	case "faults":
		figure = compare.Figure{Kind: "faults", Title: "page faults", Thing: "fault", Count: true}
	case "hostile":
		before = hostileReport()
		before.SitesMore = 0
		before.Sites[0].Stack = before.Sites[1].Stack
	}
	a, b := sideOf("old.json", before), sideOf("new\x1b[2J.json", after)
	if name == "omitted" {
		a.Entries = append(a.Entries, compare.Entry{Process: 1, Bytes: compare.Measured{Value: 248 << 10}, Count: compare.Measured{Value: 140}})
	}
	d, err := compare.Compare(figure, a, b, by)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// grow is what another build of the service does: two sites changed, one came and one went.
func grow(r *report.Report) {
	r.WindowNS, r.Processes[0].PID = 25_000*ms, 5151
	r.Sites[0].LiveBytes, r.Sites[0].LiveCount = 20<<20, 20_480
	r.Sites[1].LiveBytes, r.Sites[1].LiveCount = 5<<20, 12_500
	r.Sites[2].Stack = []*report.Frame{{Function: "index_build", File: "/build/service-1.3/src/index.c", Line: 88, Module: "/usr/bin/service"}, r.Sites[1].Stack[1]}
	r.Sites[2].Function, r.Sites[2].FunctionFrame, r.Sites[2].Truncated, r.Sites[2].FramePointers = "index_build", 0, false, false
	r.Events.Lost = 12
}

// sideOf measures live blocks, or faults where all sites have some.
func sideOf(name string, r *report.Report) compare.Side {
	s := compare.Side{Name: name, Report: r, Omitted: r.SitesMore}
	for i := range r.Sites {
		site := &r.Sites[i]
		e := compare.Entry{Site: site, Process: site.Process, Bytes: compare.Measured{Value: site.LiveBytes}, Count: compare.Measured{Value: site.LiveCount}}
		if r.Sampling != nil {
			e.Bytes.SE, e.Count.SE = site.LiveBytes/16, site.LiveCount/16
		}
		s.Entries = append(s.Entries, e)
	}
	return s
}

// TestComparisonGolden compares what WriteComparison makes with files that were read and judged
// by a person. Files are named after the pair of Reports, then the options.
func TestComparisonGolden(t *testing.T) {
	for name, opt := range map[string]ComparisonOptions{
		"site.width=0.stacks=2.txt": {Stacks: 2, Frames: 8},
		"site.width=80.top=2.txt":   {Width: 80, Top: 2},
		"site.width=80.color.txt":   {Width: 80, Color: true, Stacks: 1, Frames: 2},
		"site.json":                 {Format: JSON},
		"site.top=1.csv":            {Format: CSV, Top: 1},
		"site.top=3.md":             {Format: Markdown, Top: 3},
		"function.width=100.txt":    {Width: 100},
		"file.width=60.txt":         {Width: 60},
		"module.md":                 {Format: Markdown},
		"process.width=0.txt":       {Stacks: 2, Frames: 8},
		"process.top=1.json":        {Format: JSON, Top: 1},
		"same.width=80.txt":         {Width: 80},
		"same.md":                   {Format: Markdown},
		"sampled.width=100.txt":     {Width: 100},
		"omitted.width=100.txt":     {Width: 100, Stacks: 3, Frames: 1},
		"omitted.top=1.json":        {Format: JSON, Top: 1},
		"faults.width=80.txt":       {Width: 80},
		"faults.csv":                {Format: CSV},
		"hostile.width=100.txt":     {Width: 100, Stacks: 9, Frames: 3},
		"hostile.md":                {Format: Markdown},
		"hostile.csv":               {Format: CSV},
	} {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			if err := WriteComparison(&got, comparisons(t, name[:strings.IndexByte(name, '.')]), opt); err != nil {
				t.Fatal(err)
			}
			compareGolden(t, filepath.Join("testdata", "comparison", name), got.Bytes())
		})
	}
	if err := WriteComparison(&bytes.Buffer{}, comparisons(t, "site"), ComparisonOptions{Format: "pdf"}); err == nil || !strings.Contains(err.Error(), "text json csv markdown") {
		t.Errorf("pdf: %v", err)
	}
}

// TestComparisonAddsUp reads what the formats for programs say, of rows that are shown and those
// that are not: live bytes went from 20 MiB and 52 KiB to 25 MiB and 52 KiB.
func TestComparisonAddsUp(t *testing.T) {
	const before, after = 20<<20 + 52<<10, 25<<20 + 52<<10
	for top := range 6 {
		var out bytes.Buffer
		if err := WriteComparison(&out, comparisons(t, "site"), ComparisonOptions{Format: CSV, Top: top}); err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(&out).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		sums := make(map[string]int)
		for _, row := range rows[1:] {
			for i, name := range rows[0] {
				n, _ := strconv.Atoi(row[i])
				sums[name] += n
			}
		}
		if sums["bytes_before"] != before || sums["bytes_after"] != after || sums["bytes_change"] != after-before || sums["bytes_grown"]-sums["bytes_shrunk"] != after-before {
			t.Errorf("csv of %d rows: %v", top, sums)
		}
		out.Reset()
		if err := WriteComparison(&out, comparisons(t, "function"), ComparisonOptions{Format: JSON, Top: top}); err != nil {
			t.Fatal(err)
		}
		type sum struct {
			Bytes struct{ Before, After, Change, Grown, Shrunk int }
		}
		var doc struct {
			Schema         string
			Total, Omitted sum
			Rows           []sum
		}
		if err := json.Unmarshal(out.Bytes(), &doc); err != nil || doc.Schema != ComparisonSchema {
			t.Fatal(err, doc.Schema)
		}
		all := doc.Omitted.Bytes
		for _, row := range doc.Rows {
			all.Before, all.After, all.Change = all.Before+row.Bytes.Before, all.After+row.Bytes.After, all.Change+row.Bytes.Change
			all.Grown, all.Shrunk = all.Grown+row.Bytes.Grown, all.Shrunk+row.Bytes.Shrunk
		}
		if all != doc.Total.Bytes || all.Before != before || all.After != after || all.Change != after-before {
			t.Errorf("json of %d rows: %+v, total %+v", top, all, doc.Total.Bytes)
		}
	}
}
