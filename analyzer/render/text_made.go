package render

import (
	"strings"

	"github.com/memtrace/memtrace/analyzer/report"
)

// addMade says when, where and by what a Report was made.
func addMade(p *page, m *report.Made) {
	if m == nil {
		return
	}
	var items []string
	add := func(word, text string) {
		if text != "" {
			items = append(items, word+clean(text))
		}
	}
	add("at ", m.At)
	add("on ", m.Host)
	add("by memtrace ", m.Version)
	if len(items) > 0 {
		p.flow(dim, "", append([]string{"Made"}, items...), " ")
	}
	if len(m.Command) > 0 {
		p.flow(dim, "  ", shellWords(m.Command), " ")
	}
}

// shellWords are a command line's words as a shell would take them.
func shellWords(command []string) []string {
	out := make([]string, 0, len(command))
	for _, word := range command {
		if word == "" || strings.ContainsAny(word, " \t\n'\"\\$`!*?[](){}<>|&;#~") {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		out = append(out, clean(word))
	}
	return out
}
