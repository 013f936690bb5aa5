//go:build linux && !viewer

package main

import (
	"fmt"
	"slices"

	"github.com/memtrace/memtrace/analyzer/report"
	"github.com/memtrace/memtrace/cmd/memtrace/naming"
)

// compiledNames say what gives the code that a runtime compiled its names.
var compiledNames = map[string]string{
	"java": "--jvm-perfmap asks the JVM for them (JDK 17 and newer)",
	"v8":   "node --perf-basic-prof has V8 write them",
}

// namesOfCompiled says of which runtimes' code there are frames without a name, and what would give them one.
func (s *session) namesOfCompiled(r *report.Report) (notes []string) {
	for _, p := range r.Processes {
		how := ""
		if p.Runtime != nil {
			how = compiledNames[p.Runtime.Name]
		}
		if how == "" || p.Runtime.Name == "java" && s.jvmPerfMap {
			continue
		}
		sites := 0
		for i := range r.Sites {
			if site := &r.Sites[i]; site.Process == p.ID && slices.ContainsFunc(site.Stack, isUnnamedCode) {
				sites++
			}
		}
		if sites > 0 {
			notes = append(notes, fmt.Sprintf("Process %d: stacks of %d sites lead through code that was compiled as it ran, and has no names: %s.", p.PID, sites, how))
		}
	}
	return notes
}

func isUnnamedCode(f *report.Frame) bool { return f.Function == naming.UnnamedCode }
