package python

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// Lines are those that each version of the interpreter reads in its own tables (testdata/python/lines.py).
func TestLinesAreTheInterpreters(t *testing.T) {
	files, err := filepath.Glob("testdata/lines-3.*.json")
	if err != nil || len(files) != len(layouts) {
		t.Fatalf("%d files (%v), want one for each of %d versions", len(files), err, len(layouts))
	}
	for _, file := range files {
		var said struct {
			Minor int
			Codes []struct {
				First int32
				Table string
				Lines [][2]int
			}
		}
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &said)
		}
		if err != nil || len(said.Codes) == 0 {
			t.Fatalf("%s: %d codes, %v", file, len(said.Codes), err)
		}
		for _, c := range said.Codes {
			table, err := hex.DecodeString(c.Table)
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range c.Lines {
				if got := lineOf(said.Minor, table, c.First, int32(l[0])); got != l[1] {
					t.Errorf("3.%d, code at line %d: byte %d is of line %d, want %d", said.Minor, c.First, l[0], got, l[1])
				}
			}
		}
	}
}

// A frame that has not begun stands at the line where its function does.
func TestLineBeforeTheFirstInstruction(t *testing.T) {
	for minor := range layouts {
		if got := lineOf(minor, nil, 12, -1); got != 12 {
			t.Errorf("3.%d: line %d, want 12", minor, got)
		}
	}
}
