package tui

import (
	"regexp"
	"strings"

	"github.com/memtrace/memtrace/analyzer/render"
)

// minHelp is the least width of an explanation.
const minHelp = 8

// helpKey is how wide the first column of the help page is.
const helpKey = 15

// gaps are what separates the columns of keyHelp.
var gaps = regexp.MustCompile(` {2,}`)

// FitHelp breaks a line of a help page up, whose keys and explanations take turns,
// where the terminal is too narrow for it.
func FitHelp(line string, width int) []string {
	if render.Columns(strings.TrimPrefix(line, "# ")) <= max(width, helpKey+minHelp) {
		return []string{line}
	}
	cells := gaps.Split(line, -1)
	if strings.HasPrefix(line, "# ") {
		return cells[:1]
	}
	var lines []string
	for len(cells) > 1 {
		lines = append(lines, Explained(cells[0], cells[1], width)...)
		cells = cells[2:]
	}
	if len(cells) == 1 {
		lines = append(lines, Explained("", cells[0], width)...)
	}
	return lines
}

// Explained writes a word and, beside it, what it means.
func Explained(word, meaning string, width int) []string {
	room := max(width-helpKey, minHelp)
	line := render.Pad(word, helpKey-1, false)
	at, blank := 0, strings.Repeat(" ", helpKey-1)
	var lines []string
	for _, w := range strings.Fields(meaning) {
		if n := render.Columns(w); at > 0 && at+1+n > room {
			lines = append(lines, line)
			line, at = blank, 0
		}
		line, at = line+" "+w, at+1+render.Columns(w)
	}
	return append(lines, line)
}
