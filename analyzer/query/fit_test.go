package query

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestTablesFitTerminals: no line is wider than the terminal, what goes is what is least wanted, and nothing goes elsewhere.
func TestTablesFitTerminals(t *testing.T) {
	table := func() [][]string {
		return [][]string{
			{"ADDRESS", "SIZE", "BORN", "ENDED", "LIFETIME", "PID", "THREAD", "FREED BY", "KIND", "END", "FUNCTION"},
			{"0x7ff5b71d0010", "386 KiB", "542ms", "543ms", "1.19ms", "23295", "23295", "23295", "realloc", "realloc", strings.Repeat("name", 30)},
		}
	}
	for _, c := range []struct {
		width int
		has   string
	}{{0, "FREED BY"}, {300, "FREED BY"}, {120, "FREED BY"}, {100, "KIND"}, {80, "ADDRESS"}} {
		rows, gap := fitTable(table(), c.width, cutEnd)
		var b strings.Builder
		writeTable(&b, rows, strings.Repeat(" ", gap))
		head, line, _ := strings.Cut(strings.TrimSuffix(b.String(), "\n"), "\n")
		if n := utf8.RuneCountInString(line); c.width > 0 && n > c.width || !strings.Contains(head, c.has) || !strings.Contains(line, "namename") {
			t.Errorf("of %d columns: %d, want %q:\n%s", c.width, n, c.has, b.String())
		}
		if whole := strings.HasSuffix(line, strings.Repeat("name", 30)); whole != (c.width == 0 || c.width == 300) {
			t.Errorf("of %d columns: the whole name is %v:\n%s", c.width, whole, b.String())
		}
	}
	if got := cutBeginning("/usr/src/lib/parse.c", 10); got != "…b/parse.c" {
		t.Errorf("a path is cut to %q", got)
	}
}
