package analyzer

import (
	"cmp"
	"slices"
	"strings"

	"github.com/memtrace/memtrace/analyzer/report"
)

// runtimeHints say what tells more of a runtime's memory than its parts do.
var runtimeHints = map[string]string{
	"java": "jcmd PID GC.class_histogram tells what is in the Java heap; -XX:NativeMemoryTracking=summary, what the JVM counts itself",
	"v8":   "v8.writeHeapSnapshot() tells what is in V8's heap; node --perf-basic-prof names JavaScript functions in stacks",
}

// reportRuntime says what the last look at a process's memory found its runtime to use; nil where there is none.
func (c *correlation) reportRuntime() *report.Runtime {
	r := c.runtime
	if r == nil {
		return nil
	}
	out := &report.Runtime{Name: r.Name, Version: r.Version, Problem: r.Problem, Hint: runtimeHints[r.Name], Parts: []report.RuntimePart{}, RestBytes: c.rssBy.AnonMmap}
	for _, p := range r.Parts {
		if p.Mapped == 0 && p.Resident == 0 {
			continue
		}
		out.Parts = append(out.Parts, report.RuntimePart{Name: p.Name, MappedBytes: p.Mapped, ResidentBytes: p.Resident, SwappedBytes: p.Swapped})
		out.RestBytes -= min(out.RestBytes, p.Resident)
	}
	slices.SortFunc(out.Parts, func(x, y report.RuntimePart) int {
		return cmp.Or(cmp.Compare(y.ResidentBytes, x.ResidentBytes), strings.Compare(x.Name, y.Name))
	})
	return out
}

// inParts is how much of RSSBy.AnonMmap a runtime is known to use.
func (c *correlation) inParts() (n uint64) {
	if c.runtime != nil {
		for _, p := range c.runtime.Parts {
			n += p.Resident
		}
	}
	return min(n, c.rssBy.AnonMmap)
}
