package render

import (
	"cmp"
	"strings"

	"github.com/memtrace/memtrace/analyzer/report"
)

// runtimeTitles are what runtimes are called at the beginning of their line.
var runtimeTitles = map[string]string{"java": "JVM", "v8": "V8"}

// addRuntime says what a language's runtime uses of the other anonymous memory, and what would tell more.
func addRuntime(p *page, r *report.Runtime) {
	if r == nil {
		return
	}
	title := cmp.Or(runtimeTitles[r.Name], "Lang")
	label := "  " + title + strings.Repeat(" ", max(1, 6-len(title)))
	if r.Problem != "" && len(r.Parts) == 0 {
		p.prose(warning, label, "what it holds is not known: "+clean(r.Problem))
		return
	}
	var items []string
	for _, part := range r.Parts {
		items = append(items, clean(part.Name)+" "+size(part.ResidentBytes)+" of "+size(part.MappedBytes))
	}
	if len(items) == 0 {
		return
	}
	p.flow(plain, label, append(items, "not told apart "+size(r.RestBytes)), ", ")
	if r.Problem != "" {
		p.prose(warning, "        ", "these are not all: "+clean(r.Problem))
	}
	p.prose(dim, "        ", "these are parts of other anonymous; "+clean(r.Hint))
}
