package render

import (
	"strings"
	"testing"

	"github.com/memtrace/memtrace/analyzer/report"
)

// What a runtime holds stands below RSS, what it calls its parts is no terminal's command, and a problem stands in their place.
func TestRuntimeLine(t *testing.T) {
	for _, c := range []struct {
		runtime report.Runtime
		want    string
	}{
		{report.Runtime{Name: "java", RestBytes: 1 << 20, Hint: "ask jcmd", Parts: []report.RuntimePart{
			{Name: "Java heap", MappedBytes: 4 << 20, ResidentBytes: 3 << 20}, {Name: "meta\x1bspace", MappedBytes: 2 << 20, ResidentBytes: 1 << 20}}},
			`  JVM   Java heap 3.00 MiB of 4.00 MiB, meta\x1bspace 1.00 MiB of 2.00 MiB, not told apart 1.00 MiB`},
		{report.Runtime{Name: "java", Problem: "metaspace is not all: no\x07", Parts: []report.RuntimePart{
			{Name: "Java heap", MappedBytes: 4, ResidentBytes: 3}}},
			`        these are not all: metaspace is not all: no\x07`},
		{report.Runtime{Name: "v8", Problem: "no page\x07", Parts: []report.RuntimePart{}}, `  V8    what it holds is not known: no page\x07`},
	} {
		r := serviceReport()
		r.Processes[0].Runtime = &c.runtime
		if out := text(t, r, Options{}); !strings.Contains(out, c.want+"\n") {
			t.Errorf("no line %q in\n%.1500s", c.want, out)
		}
	}
}
