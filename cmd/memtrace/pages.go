package main

import (
	"embed"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/memtrace/memtrace/cmd/memtrace/cmdline"
)

// page is what the help of a command has beside its options.
type page struct {
	examples  []cmdline.Example
	exit      []cmdline.Row
	see       []string
	arguments cmdline.Detail
}

var (
	exitFine    = cmdline.Row{Key: "0", Text: "fine, also after Ctrl-C"}
	exitError1  = cmdline.Row{Key: "1", Text: "an operation failed"}
	exitBadUse  = cmdline.Row{Key: "2", Text: "bad usage"}
	exitGate    = cmdline.Row{Key: "23", Text: "a --fail-on condition was met (--error-exitcode changes it)"}
	exitNotHere = cmdline.Row{Key: "77", Text: "the kernel or the privileges do not allow it; memtrace doctor says what to do"}

	exitPlain = []cmdline.Row{exitFine, exitError1, exitBadUse}
	exitTrace = []cmdline.Row{exitFine, exitError1, exitBadUse, exitGate, exitNotHere}
	exitRun   = []cmdline.Row{
		{Key: "0", Text: "the command succeeded and no condition was met"}, exitError1, exitBadUse, exitGate, exitNotHere,
		{Key: "other", Text: "the command's own; 128 + N for signal N, 126 or 127 where it could not be started"},
	}
	exitWatch = []cmdline.Row{
		exitFine, exitError1, exitBadUse, {Key: "23", Text: "with --watch: a condition was met (--error-exitcode changes it)"},
	}
)

// pages has one for each command; "" is memtrace without one.
// TestEveryCommandIsDescribed fails where one is missing.
func pages() map[string]page {
	return map[string]page{
		"": {exit: exitRun, examples: []cmdline.Example{
			{Line: "sudo memtrace -p 1234", Text: "trace a process, live"},
			{Line: "sudo memtrace run --leaks -- ./tests", Text: "what leaks until it exits"},
			{Line: "sudo memtrace leaks -p 1234", Text: "what has leaked so far"},
			{Line: "sudo memtrace top", Text: "which process to look at"},
			{Line: "sudo memtrace doctor", Text: "what works on this machine"},
		}},
		"trace": {exit: exitTrace, see: []string{"help leaks", "help cost", "help containers"}, examples: []cmdline.Example{
			{Line: "sudo memtrace -p 1234", Text: "a live screen until q or Ctrl-C"},
			{Line: "sudo memtrace -p 1234 -d 30s > result.txt", Text: "30 seconds, into a file"},
			{Line: "sudo memtrace --comm nginx --leaks -d 1m", Text: "check all nginx for leaks"},
			{Line: "sudo memtrace -p 1234 --format json", Text: "one JSON Report a second"},
			{Line: "sudo memtrace -p 1234 --events --min-size 1048576", Text: "large blocks, live"},
		}},
		"run": {exit: exitRun, see: []string{"help leaks", "help ci"}, arguments: cmdline.Detail{Values: cmdline.Programs}, examples: []cmdline.Example{
			{Line: "sudo memtrace run -- ./server --port 80", Text: "from its first instruction to its end"},
			{Line: "sudo memtrace run --leaks -- ./tests", Text: "and what is leaked when it exits"},
			{Line: "sudo memtrace run --fail-on 'definite,rss>500MiB' --junit m.xml -- ./tests", Text: "in CI: exit with 23 if something leaks or RSS is above 500 MiB"},
		}},
		"record": {exit: exitRun, see: []string{"report --help", "export --help", "help cost"}, arguments: cmdline.Detail{Values: cmdline.Programs}, examples: []cmdline.Example{
			{Line: "sudo memtrace record -o app.memtrace -p 1234", Text: "until Ctrl-C"},
			{Line: "sudo memtrace record -o app.memtrace --max-size 2GiB --comm nginx -d 1h", Text: "an hour, in 2 GiB at most"},
			{Line: "sudo memtrace record -o app.memtrace --flight 5m -p 1234", Text: "what was in the heap before it is killed"},
			{Line: "sudo memtrace record -o tests.memtrace --leaks -- ./tests", Text: "a command, and what it leaks"},
			{Line: "memtrace report app.memtrace --at 1m30s", Text: "what lived then"},
			{Line: "memtrace export app.memtrace@1m30s app.memtrace --format flamegraph -o grown.svg", Text: "what has grown since"},
		}},
		"top": {exit: exitPlain, see: []string{"help containers"}, examples: []cmdline.Example{
			{Line: "sudo memtrace top", Text: "live; h shows the keys"},
			{Line: "sudo memtrace top --view cgroups", Text: "limits, pressure and use"},
			{Line: "sudo memtrace top --once --sort uss", Text: "print it once"},
			{Line: "sudo memtrace top --format json", Text: "for scripts"},
		}},
		"serve": {exit: exitPlain, see: []string{"top --help", "snapshot --help"}, examples: []cmdline.Example{
			{Line: "sudo memtrace serve", Text: "all services, at http://127.0.0.1:9417/metrics"},
			{Line: "sudo memtrace serve --config memtrace.yaml --check-config", Text: "is the configuration right?"},
			{Line: "sudo memtrace serve --listen 10.0.0.5:9417", Text: "for a Prometheus elsewhere"},
			{Line: "sudo memtrace serve --config memtrace.yaml --data /srv/memtrace", Text: "recordings of services whose growth is watched"},
		}},
		"leaks": {exit: exitTrace, see: []string{"help leaks", "help ci"}, examples: []cmdline.Example{
			{Line: "sudo memtrace leaks -p 1234", Text: "check now"},
			{Line: "sudo memtrace leaks -p 1234 --fail-on definite", Text: "exit with 23 on a leak"},
		}},
		"doctor": {exit: []cmdline.Row{exitFine, exitError1, exitBadUse, exitNotHere}, see: []string{
			"serve --help", "help containers",
		}, examples: []cmdline.Example{
			{Line: "sudo memtrace doctor", Text: "kernel and privileges"},
			{Line: "sudo memtrace doctor -p 1234", Text: "and the functions to probe"},
			{Line: "sudo memtrace doctor --serve", Text: "what memtrace serve lacks"},
		}},
		"config":     configPage(),
		"snapshot":   snapshotPage(),
		"matrix":     matrixPage(),
		"diff":       diffPage(),
		"report":     reportPage(),
		"export":     exportPage(),
		"query":      queryPage(),
		"web":        webPage(),
		"completion": completionPage(),
		"help": {exit: exitPlain, arguments: cmdline.Detail{Hints: helpWords()}, examples: []cmdline.Example{
			{Line: "memtrace help run", Text: "the options of run"},
			{Line: "memtrace help ci", Text: "how to fail a build on a leak"},
		}},
		"version": {exit: exitPlain, examples: []cmdline.Example{{Line: "memtrace version", Text: "the version"}}},
	}
}

func snapshotPage() page {
	return page{exit: exitWatch, see: []string{"matrix --help", "diff --help"}, examples: []cmdline.Example{
		{Line: "sudo memtrace snapshot -o before.snap", Text: "all processes, now"},
		{Line: "ssh host sudo memtrace snapshot -o - > host.snap", Text: "another machine's"},
		{Line: "sudo memtrace snapshot --watch 'mem.available<10%' -o low.snap", Text: "when memory runs low; then exit with 23"},
		{Line: "sudo memtrace snapshot --watch 'pss(redis)>2GiB,psi.some.avg10>10'", Text: "a line at each crossing until Ctrl-C"},
	}}
}

func matrixPage() page {
	return page{exit: exitPlain, see: []string{"snapshot --help", "diff --help"}, examples: []cmdline.Example{
		{Line: "sudo memtrace matrix", Text: "this machine"},
		{Line: "sudo memtrace matrix --report components", Text: "by file and heap"},
		{Line: "sudo memtrace matrix --format html > memory.html", Text: "a page to open anywhere"},
		{Line: "memtrace matrix -i host.snap", Text: "a snapshot of any machine"},
	}}
}

func diffPage() page {
	return page{exit: exitPlain, see: []string{"report --help", "matrix --help"}, arguments: cmdline.Detail{Values: cmdline.Files}, examples: []cmdline.Example{
		{Line: "sudo memtrace run --format json --report old.json -- ./tests", Text: "save a Report; then one of another build, as new.json"},
		{Line: "memtrace diff old.json new.json", Text: "live bytes by call site"},
		{Line: "memtrace diff app.memtrace@1m app.memtrace@end", Text: "what has grown since the first minute of a recording"},
		{Line: "memtrace diff old.json new.json --kind allocated --by function", Text: "all that was allocated, by function"},
		{Line: "memtrace diff old.json new.json --format markdown", Text: "for a comment on a pull request"},
		{Line: "memtrace diff before.snap after.snap", Text: "two snapshots: all processes, by PSS"},
	}}
}

func reportPage() page {
	return page{exit: exitPlain, see: []string{"export --help", "run --help"}, arguments: cmdline.Detail{Values: cmdline.Files}, examples: []cmdline.Example{
		{Line: "sudo memtrace run --format json --report heap.json -- ./server", Text: "save a Report"},
		{Line: "memtrace report heap.json", Text: "show it again"},
		{Line: "memtrace report heap.json --sort peak --top 50", Text: "by peak, 50 sites"},
		{Line: "memtrace report app.memtrace --at end-10s", Text: "a recording, ten seconds before its end"},
		{Line: "memtrace report app.memtrace --from 1m --to 2m --sort survived", Text: "what was born in that minute, and stayed"},
		{Line: "memtrace report heap.json --format csv > heap.csv", Text: "for a spreadsheet"},
	}}
}

func exportPage() page {
	return page{exit: exitPlain, see: []string{"report --help"}, arguments: cmdline.Detail{Values: cmdline.Files}, examples: []cmdline.Example{
		{Line: "memtrace export heap.json --format html -o heap.html", Text: "a page to open anywhere"},
		{Line: "memtrace export heap.json --format pprof -o heap.pb.gz", Text: "for go tool pprof"},
		{Line: "memtrace export heap.json --format flamegraph --kind leaked > leaks.svg", Text: "a picture of the leaks"},
		{Line: "memtrace export before.json after.json --format flamegraph -o grown.svg", Text: "what changed"},
		{Line: "memtrace export app.memtrace --format heaptrack --pid 1234 -o heaptrack.app.zst", Text: "for heaptrack_print, heaptrack_gui"},
	}}
}

func queryPage() page {
	return page{exit: exitPlain, see: []string{"record --help", "report --help"}, arguments: cmdline.Detail{Values: cmdline.Files}, examples: []cmdline.Example{
		{Line: "memtrace query app.memtrace 'lifetime < 1ms && size > 4KiB'", Text: "who allocates large blocks for a moment"},
		{Line: "memtrace query app.memtrace 'live && stack ~ \"parse\"' --by function", Text: "what code called from a parser still holds"},
		{Line: "memtrace query app.memtrace 'thread != free_thread' --by thread", Text: "blocks that another thread frees"},
		{Line: "memtrace query app.memtrace 'size > 1MiB' --by none --sort first", Text: "each large block"},
		{Line: "memtrace query app.memtrace --timeline 1s --format csv > heap.csv", Text: "live, born and ended bytes, second by second"},
		{Line: "memtrace query app.memtrace --at 1m30s --by age", Text: "how old what lived then was"},
	}}
}

func webPage() page {
	return page{exit: exitPlain, see: []string{"record --help", "query --help"}, arguments: cmdline.Detail{Values: cmdline.Files}, examples: []cmdline.Example{
		{Line: "memtrace web app.memtrace --open", Text: "look at a recording"},
		{Line: "memtrace web before.memtrace after.memtrace", Text: "and compare two"},
		{Line: "memtrace web app.memtrace --listen 127.0.0.1:8080", Text: "on a port of your choice, such as for ssh -L"},
	}}
}

func configPage() page {
	commands := cmdline.Detail{Hints: configuredCommands()}
	return page{exit: exitPlain, see: []string{"help config"}, arguments: commands, examples: []cmdline.Example{
		{Line: "memtrace config", Text: "what is in force, and from where"},
		{Line: "memtrace config top", Text: "all flags of top"},
		{Line: "memtrace config --check config.yaml", Text: "is this file right?"},
	}}
}

func completionPage() page {
	return page{exit: exitPlain, arguments: cmdline.Detail{Words: cmdline.Shells()}, examples: []cmdline.Example{
		{Line: "source <(memtrace completion bash)", Text: "for this bash"},
		{Line: "source <(memtrace completion zsh)", Text: "for this zsh"},
		{Line: "memtrace completion fish | source", Text: "for this fish"},
	}}
}

//go:embed topics/*.txt
var topicFiles embed.FS

func topics() []cmdline.Topic {
	out := make([]cmdline.Topic, 0, len(topicNames))
	for _, name := range topicNames {
		text, err := topicFiles.ReadFile("topics/" + name + ".txt")
		if err != nil {
			panic(err) // it is built in
		}
		summary, _, _ := strings.Cut(string(text), "\n")
		out = append(out, cmdline.Topic{Name: name, Summary: summary, Text: string(text)})
	}
	return out
}

// helpWords are what memtrace help explains.
func helpWords() []string {
	words := append([]string{}, topicNames...)
	for _, c := range newApp().Commands {
		if !c.Hidden && !slices.Contains(words, c.Name) { // a topic may be called as its command
			words = append(words, c.Name)
		}
	}
	return words
}

// notConfigured are commands without defaults to set; serve has a configuration of its own.
var notConfigured = []string{"serve", "config", "help", "completion", "version"}

// configuredCommands are those with defaults to set.
func configuredCommands() []string {
	var names []string
	for _, c := range newApp().Commands {
		if !c.Hidden && !slices.Contains(notConfigured, c.Name) {
			names = append(names, c.Name)
		}
	}
	return names
}

// commandLine describes memtrace's command line as its flags are.
func commandLine() *cmdline.Program {
	app, details, more := newApp(), optionDetails(), ownPages()
	p := &cmdline.Program{Name: app.Name, Summary: app.Usage, Groups: optionGroups, Topics: topics(), NoManual: noManual}
	p.Root = describeCommand(&cli.Command{
		Usage: app.Usage, UsageText: app.UsageText, Description: app.Description,
		Flags: append(app.Flags, cli.VersionFlag),
	}, details, more[""])
	for _, c := range app.Commands {
		described := *c
		described.Flags = append(c.Flags[:len(c.Flags):len(c.Flags)], cli.HelpFlag)
		p.Commands = append(p.Commands, describeCommand(&described, details, more[c.Name]))
	}
	return p
}

func describeCommand(c *cli.Command, details map[string]cmdline.Detail, more page) cmdline.Command {
	return cmdline.Command{
		Name: c.Name, Summary: c.Usage, Synopsis: strings.Split(c.UsageText, "\n"), Description: c.Description, Hidden: c.Hidden,
		Options: cmdline.Describe(c.Name, c.Flags, details), Examples: more.examples, Exit: more.exit, See: more.see, Arguments: more.arguments,
	}
}
