//go:build !linux || viewer

package main

import (
	"slices"
	"strings"

	"github.com/memtrace/memtrace/cmd/memtrace/cmdline"
)

// topicNames are the texts of memtrace help TOPIC: what a reader of Reports may ask.
var topicNames = []string{"leaks"}

// noManual says that there are no manual pages of this build.
const noManual = true

// ownPages are those of pages without what this build has no command for: it has no
// use for root, and refers to no command of the live machine.
func ownPages() map[string]page {
	all := pages()
	all[""] = page{exit: []cmdline.Row{exitFine, exitError1, exitBadUse, {Key: "77", Text: "the command needs memtrace on Linux"}}, examples: []cmdline.Example{
		{Line: "memtrace report heap.json", Text: "show a saved Report"},
		{Line: "memtrace report app.memtrace --at 1m30s", Text: "what lived at a time of a recording"},
		{Line: "memtrace export heap.json --format html -o heap.html", Text: "a page to open anywhere"},
		{Line: "memtrace matrix -i host.snap", Text: "a snapshot of any machine"},
	}}
	help := all["help"]
	help.examples = []cmdline.Example{
		{Line: "memtrace help report", Text: "the options of report"},
		{Line: "memtrace help leaks", Text: "what the verdicts mean"},
	}
	all["help"] = help
	for name, p := range all {
		p.examples = slices.DeleteFunc(p.examples, func(e cmdline.Example) bool { return strings.Contains(e.Line, "sudo ") })
		p.see = slices.DeleteFunc(p.see, func(see string) bool {
			command, ok := strings.CutSuffix(see, " --help")
			return !ok || slices.Contains(tracingNames, command)
		})
		all[name] = p
	}
	return all
}

// fileFormats are none: this build has no configuration.
func fileFormats(*cmdline.Program) []cmdline.Format { return nil }

func liveDetails() map[string]cmdline.Detail { return nil }

// machine lists nothing for a shell that completes a word: what a Report names ran elsewhere.
type machine struct{}

// Processes are none.
func (machine) Processes() []cmdline.Candidate { return nil }

// Names are none.
func (machine) Names() []cmdline.Candidate { return nil }

// Groups are none.
func (machine) Groups() []cmdline.Candidate { return nil }

// Containers are none.
func (machine) Containers() []cmdline.Candidate { return nil }
