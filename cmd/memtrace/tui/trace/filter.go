package trace

import (
	"strings"

	"github.com/memtrace/memtrace/analyzer/report"
)

// matches reports whether texts have each word of a filter, and none that stands behind a !.
func matches(filter string, texts ...string) bool {
	for _, word := range strings.Fields(strings.ToLower(filter)) {
		bare, not := strings.CutPrefix(word, "!")
		if bare == "" {
			continue
		}
		has := false
		for _, text := range texts {
			has = has || strings.Contains(strings.ToLower(text), bare)
		}
		if has == not {
			return false
		}
	}
	return true
}

// matchesStack does so with the names, files and modules of all frames.
func matchesStack(filter, function string, stack []*report.Frame) bool {
	if filter == "" {
		return true
	}
	texts := []string{function}
	for _, f := range stack {
		texts = append(texts, f.Function, f.File, f.Module)
	}
	return matches(filter, texts...)
}
