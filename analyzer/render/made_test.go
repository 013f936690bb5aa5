package render

import (
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
)

// Where a Report comes from is shown where it is asked for, with nothing of it as an escape sequence.
func TestMade(t *testing.T) {
	r := serviceReport()
	r.Made = &report.Made{At: "2026-11-27T10:00:00.000Z", Host: "db\x1b[31m1", Version: "1.2", Command: []string{"memtrace", "run", "--", "sh", "-c", "echo 'a'; b"}}
	const want = "Made at 2026-11-27T10:00:00.000Z on db\\x1b[31m1 by memtrace 1.2\n  memtrace run -- sh -c 'echo '\\''a'\\''; b'\n"
	if out := text(t, r, Options{Made: true}); !strings.HasPrefix(out, want) {
		t.Errorf("got\n%.300s\nwant\n%s", out, want)
	}
	if out := text(t, r, Options{}); strings.Contains(out, "Made") {
		t.Errorf("it was not asked for:\n%.300s", out)
	}
	r.Made = nil
	if out := text(t, r, Options{Made: true}); strings.Contains(out, "Made") {
		t.Errorf("nothing is known:\n%.300s", out)
	}
}
