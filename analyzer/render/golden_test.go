package render

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files from what the code writes now")

// TestGolden compares what Write makes of each fixture with files that were
// read and judged by a person. Files are named fixture, then the options.
func TestGolden(t *testing.T) {
	for name, opt := range map[string]Options{
		"service.width=0.frames=all.txt":       {Frames: -1},
		"service.width=80.frames=3.txt":        {Width: 80, Frames: 3},
		"service.width=120.top=2.stacks=1.txt": {Width: 120, Top: 2, Stacks: 1, Frames: 8},
		"service.width=40.txt":                 {Width: 40},
		"service.width=80.color.txt":           {Width: 80, Color: true},
		"service.json":                         {Format: JSON},
		"grouped.width=0.frames=all.txt":       {Frames: -1},
		"grouped.width=60.top=2.txt":           {Width: 60, Top: 2},
		"grouped.json":                         {Format: JSON},
		"sized.width=80.txt":                   {Width: 80},
		"lossy.width=80.frames=2.txt":          {Width: 80, Frames: 2},
		"lossy.width=160.frames=2.txt":         {Width: 160, Frames: 2},
		"limited.width=100.frames=2.txt":       {Width: 100, Frames: 2},
		"limited.compact.json":                 {Format: JSON, Compact: true},
		"lossy.compact.json":                   {Format: JSON, Compact: true},
		"hostile.width=100.frames=2.txt":       {Width: 100, Frames: 2},
		"hostile.compact.json":                 {Format: JSON, Compact: true},
		"empty.width=80.txt":                   {Width: 80, Frames: 4},
		"empty.json":                           {Format: JSON},
		"untraced.width=100.txt":               {Width: 100},
		"untraced.json":                        {Format: JSON},
		"unprobed.width=80.txt":                {Width: 80},
		"unprobed.width=0.top=1.txt":           {Top: 1},
		"goheap.width=80.frames=2.txt":         {Width: 80, Frames: 2},
		"goheap.width=0.txt":                   {},
		"goheap.json":                          {Format: JSON},
		"unprobed.json":                        {Format: JSON},
	} {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			fixture := name[:strings.IndexByte(name, '.')]
			if err := Write(&got, fixtures()[fixture], opt); err != nil {
				t.Fatal(err)
			}
			compareGolden(t, filepath.Join("testdata", name), got.Bytes())
		})
	}
}

func compareGolden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	gotLines, wantLines := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
	for i := range max(len(gotLines), len(wantLines)) {
		if i >= len(gotLines) || i >= len(wantLines) || gotLines[i] != wantLines[i] {
			t.Errorf("%s differs from line %d on; run with -update, then read the difference", path, i+1)
			t.Logf("got  %q", gotLines[min(i, len(gotLines)-1)])
			t.Logf("want %q", wantLines[min(i, len(wantLines)-1)])
			return
		}
	}
}
