package render

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/memtrace/memtrace/analyzer/matrix"
	"github.com/memtrace/memtrace/analyzer/snapshot"
	"github.com/memtrace/memtrace/procfs"
)

// hostileComm is a name that would do harm in a terminal, a page or a
// spreadsheet.
const hostileComm = "=1\x1b[2J<img/src=x onerror=document.title=1>"

// matrixFixture are two snapshots of a small machine, the second one later.
func matrixFixture() (before, after *snapshot.Snapshot) {
	begin := time.Date(2026, 11, 21, 5, 0, 0, 0, time.UTC)
	proc := func(pid int, comm string, anon, libc, shared uint64) snapshot.Process {
		return snapshot.Process{
			ID: snapshot.ID{PID: pid, StartTime: 100}, Comm: comm, User: "ann", Cmdline: []string{"/usr/bin/" + comm, "-x"}, Cgroup: "/a",
			Resident: anon + libc, ResidentEnd: anon + libc + shared, HaveEnd: true, Hold: 300 * time.Microsecond, Predicted: 80 * time.Microsecond,
			Usage: snapshot.Usage{RSS: anon + libc + shared, PSS: anon + libc/2 + shared/2, USS: anon, Tables: 40960, Anon: anon},
			Uses: []snapshot.Use{
				{Component: 0, Mappings: 3, RSS: anon, PSS: anon, USS: anon, Anon: anon},
				{Component: 1, Mappings: 5, RSS: libc, PSS: libc / 2},
				{Component: 2, Mappings: 1, RSS: shared, PSS: shared / 2},
			},
		}
	}
	machine := snapshot.Machine{
		Hostname: "box", Kernel: "6.1.0", BootID: "b1", PageSize: 4096,
		Before: []snapshot.Figure{{Name: "MemTotal", Value: 8 << 30}, {Name: "MemAvailable", Value: 6 << 30}},
		After:  []snapshot.Figure{{Name: "MemTotal", Value: 8 << 30}, {Name: "MemAvailable", Value: 6 << 30}},
	}
	components := []snapshot.Component{
		{Kind: procfs.KindAnon, Name: "[anon]"},
		{Kind: procfs.KindFile, Name: "/usr/lib/x86_64-linux-gnu/libc.so.6", Device: 8 << 20, Inode: 42},
		{Kind: procfs.KindShmem, Name: "/dev/shm/\x1b]0;x\a<b>pool", Inode: 7},
	}
	before = &snapshot.Snapshot{Machine: machine, Begin: begin, End: begin.Add(41 * time.Millisecond), Components: components}
	before.Processes = []snapshot.Process{
		proc(10, "postgres", 40<<20, 2<<20, 8<<20), proc(11, hostileComm, 1<<20, 2<<20, 8<<20),
		{ID: snapshot.ID{PID: 12, StartTime: 9}, Comm: "sshd", User: "root", Access: snapshot.NoPermission, Resident: 3 << 20,
			Why: "open maps of process 12: permission denied", CmdlineAccess: snapshot.NoPermission},
	}
	before.Changes = snapshot.Changes{Came: []snapshot.Passing{{ID: snapshot.ID{PID: 90, StartTime: 1}, Comm: "sh"}}}
	before.Warnings = []string{"something odd"}
	later := *before
	later.Begin, later.End = begin.Add(time.Minute), begin.Add(time.Minute+time.Second)
	later.Machine.Before = []snapshot.Figure{{Name: "MemTotal", Value: 8 << 30}, {Name: "MemAvailable", Value: 5 << 30}}
	later.Processes = []snapshot.Process{
		proc(10, "postgres", 70<<20, 2<<20, 12<<20), before.Processes[2], proc(13, "cron", 1<<20, 2<<20, 0),
	}
	return before, &later
}

// withPages is the first of them with pages.
func withPages() *snapshot.Snapshot {
	s, _ := matrixFixture()
	s.Pages = &snapshot.Pages{
		Processes: []snapshot.ProcessPages{
			{Process: 0, Runs: []snapshot.PageRun{{Page: 10, Frame: 100, Count: 6, Component: 0}, {Page: 90, Frame: 500, Count: 2, Component: 2}}},
			{Process: 1, Runs: []snapshot.PageRun{{Page: 11, Frame: 200, Count: 1, Component: 0}, {Page: 70, Frame: 500, Count: 2, Component: 2}},
				Access: snapshot.OutOfTime, Why: "the time limit was reached"},
		},
		Frames: []snapshot.FrameRun{
			{First: 100, Count: 5, Mapped: 1, Flags: 1<<11 | 1<<12 | 1<<22}, {First: 105, Count: 1, Mapped: 900, Flags: 1 << 24},
			{First: 500, Count: 2, Mapped: 2, Flags: 1<<5 | 1<<11 | 1<<34 | 1<<60},
		},
		FramesAccess: snapshot.NoPermission, FramesWhy: "open /proc/kpagecount: permission denied", FramesLeft: 1,
	}
	return s
}

func writeMatrix(t *testing.T, s *snapshot.Snapshot, opt MatrixOptions) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := WriteMatrix(&b, matrix.New(s), opt); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestMatrixGolden(t *testing.T) {
	before, after := matrixFixture()
	for name, opt := range map[string]MatrixOptions{
		"matrix.width=80.txt":             {Width: 80},
		"matrix.width=60.pss.pages.txt":   {Width: 60, By: matrix.PSS, Unit: "pages", Top: 1},
		"matrix.width=80.top=2.txt":       {Width: 80, Top: 2}, // the rest is not known
		"matrix.width=40.MB.txt":          {Width: 40, By: matrix.USS, Unit: "MB"},
		"matrix.processes.width=100.txt":  {Width: 100, Table: tableProcesses},
		"matrix.components.width=100.txt": {Width: 100, Table: tableComponents, Unit: "MiB"},
		"matrix.json":                     {Format: JSON},
		"matrix.csv":                      {Format: CSV},
		"matrix.processes.csv":            {Format: CSV, Table: tableProcesses},
		"matrix.components.csv":           {Format: CSV, Table: tableComponents, Unit: "KiB"},
	} {
		t.Run(name, func(t *testing.T) {
			compareGolden(t, filepath.Join("testdata", name), writeMatrix(t, before, opt))
		})
	}
	for name, opt := range map[string]MatrixOptions{
		"matrix.pages.width=100.txt": {Width: 100, Table: tablePages}, "matrix.pages.json": {Format: JSON, Table: tablePages},
	} {
		t.Run(name, func(t *testing.T) {
			compareGolden(t, filepath.Join("testdata", name), writeMatrix(t, withPages(), opt))
		})
	}
	for name, opt := range map[string]MatrixOptions{
		"diff.width=100.txt": {Width: 100}, "diff.json": {Format: JSON}, "diff.csv": {Format: CSV},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if err := WriteDiff(&b, matrix.Compare(before, after, matrix.PSS), opt); err != nil {
				t.Fatal(err)
			}
			compareGolden(t, filepath.Join("testdata", name), b.Bytes())
		})
	}
}

// TestNoPages: a table that isn't there is an error, not an empty one.
func TestNoPages(t *testing.T) {
	before, _ := matrixFixture()
	for _, opt := range []MatrixOptions{{Table: tablePages}, {Table: tablePages, Format: JSON}, {Table: tablePages, Format: CSV}} {
		if err := WriteMatrix(io.Discard, matrix.New(before), opt); err == nil {
			t.Errorf("%+v: no error", opt)
		}
	}
}

// TestMatrixContract: the fields that other programs rely on are there, and
// figures that are not known are null.
func TestMatrixContract(t *testing.T) {
	before, _ := matrixFixture()
	var doc struct {
		Processes []struct {
			PID                 int
			Comm                string
			USS, PSS, RSS, Swap *uint64
			Components          []map[string]any
		}
	}
	if err := json.Unmarshal(writeMatrix(t, before, MatrixOptions{Format: JSON}), &doc); err != nil {
		t.Fatal(err)
	}
	if len(doc.Processes) != 3 || doc.Processes[2].PID != 12 {
		t.Fatalf("%+v", doc)
	}
	for _, p := range doc.Processes[:2] {
		sum := 0.0
		for _, c := range p.Components {
			for _, key := range []string{"name", "kind", "uss", "pss", "rss"} {
				if _, ok := c[key]; !ok {
					t.Errorf("a component has no %s: %v", key, c)
				}
			}
			sum += c["rss"].(float64)
		}
		if p.RSS == nil || float64(*p.RSS) != sum || p.Swap == nil {
			t.Errorf("process %d: %+v; the components' sum is %v", p.PID, p, sum)
		}
	}
	if p := doc.Processes[2]; p.USS != nil || p.PSS != nil || p.RSS != nil || p.Swap != nil || p.Components == nil {
		t.Errorf("a process without permission: %+v", p)
	}
}

// TestHostileNames: nothing that a process calls itself reaches a terminal as a
// control character, a page as markup, or a spreadsheet as a formula.
func TestHostileNames(t *testing.T) {
	before, after := matrixFixture()
	outputs := map[string][]byte{}
	for _, table := range Tables() {
		for _, format := range []Format{Text, CSV, JSON} {
			if table != tablePages || format != CSV {
				outputs[table+"."+string(format)] = writeMatrix(t, withPages(), MatrixOptions{Format: format, Table: table})
			}
		}
	}
	for _, format := range []Format{Text, CSV, JSON} {
		var b bytes.Buffer
		if err := WriteDiff(&b, matrix.Compare(before, after, matrix.RSS), MatrixOptions{Format: format}); err != nil {
			t.Fatal(err)
		}
		outputs["diff."+string(format)] = b.Bytes()
	}
	for name, out := range outputs {
		if i := bytes.IndexFunc(out, func(r rune) bool { return r < ' ' && r != '\n' || r == 0x7f }); i >= 0 {
			t.Errorf("%s has the control character %q", name, out[i])
		}
		if !strings.HasSuffix(name, ".csv") {
			continue
		}
		rows, err := csv.NewReader(bytes.NewReader(out)).ReadAll()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, cell := range slices.Concat(rows...) {
			if strings.HasPrefix(cell, "=") {
				t.Errorf("%s has the formula %q", name, cell)
			}
		}
	}
}

// TestPage: names stand in the page's data alone, where no bracket is left.
func TestPage(t *testing.T) {
	before, _ := matrixFixture()
	page := string(writeMatrix(t, before, MatrixOptions{Format: HTML}))
	if strings.Contains(page, "<img") || strings.Contains(page, "<b>") || strings.Contains(page, "{{") {
		t.Error("a name stands in the page as markup")
	}
	for _, part := range []string{policyHash(matrixJS), policyHash(matrixCSS), "default-src 'none'", `"comm":"postgres"`} {
		if !strings.Contains(page, part) {
			t.Errorf("the page lacks %q", part)
		}
	}
	for _, word := range []string{"http:", "https:", "src=\"", "@import", "url(", "innerHTML", "eval("} {
		if strings.Contains(matrixPageHTML+matrixCSS+matrixJS, word) {
			t.Errorf("the page has %q", word)
		}
	}
}

func TestMatrixUnits(t *testing.T) {
	for _, c := range []struct {
		unit Unit
		n    uint64
		want string
	}{
		{"B", 1 << 60, "1152921504606846976"}, {"KiB", 4096, "4"}, {"KiB", 1536, "1.5"}, {"KiB", 0, "0"}, {"MiB", 1 << 20, "1.0"},
		{"MB", 1 << 20, "1.0"}, {"MB", 123_456_789, "123.5"}, {"kB", 4096, "4.1"}, {"pages", 8192, "2"}, {"pages", 1024, "0.2"},
	} {
		if got := c.unit.format(c.n, 4096); got != c.want {
			t.Errorf("%d in %s: %s, want %s", c.n, c.unit, got, c.want)
		}
	}
}
