package main

import (
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/snapshot"
)

func TestContent(t *testing.T) {
	for text, want := range map[string]content{
		`{"schema":"memtrace.report/1"}`:    aReport,
		" \r\n\t{}":                         aReport,
		snapshot.Magic + "\x01\x00":         aSnapshot,
		snapshot.Magic[:7]:                  anything,
		"":                                  anything,
		"text {":                            anything,
		strings.Repeat(" ", 1<<20) + "{":    anything,
		strings.Repeat("\n", 1000) + "{...": aReport,
	} {
		if got := contentOfReader(strings.NewReader(text)); got != want {
			t.Errorf("%.20q is %s, want %s", text, got, want)
		}
	}
	for _, path := range []string{"-", "/nonexistent", "/dev/zero", "."} {
		if got := contentOf(path); got != anything {
			t.Errorf("%s is %s", path, got)
		}
	}
}
