//go:build linux && !viewer

package main

import (
	"slices"
	"strings"

	"github.com/memtrace/memtrace/cmd/memtrace/agent"
	"github.com/memtrace/memtrace/cmd/memtrace/cmdline"
	"github.com/memtrace/memtrace/cmd/memtrace/config"
)

// fileFormats are the files that memtrace reads, for their manual pages. The keys are those of the code that reads
// them.
func fileFormats(p *cmdline.Program) []cmdline.Format {
	return []cmdline.Format{serveFormat(), configFormat(p)}
}

func serveFormat() cmdline.Format {
	return cmdline.Format{
		Name: "memtrace.yaml", Summary: "configuration of memtrace serve", See: []string{"memtrace-serve"},
		Description: `memtrace serve reads this file, in YAML, of at most 1 MiB. What it doesn't say has a default, and so has
a machine without the file. A key that there is not is an error.

The file is read again when it changes, and at SIGHUP. One that is wrong leaves the old one in force, and the metric
memtrace_config_last_reload_successful is 0. This says what is wrong before the file is installed:

  memtrace serve --check-config --config memtrace.yaml

A TIME is a number with a unit: 500ms, 10s, 5m, 336h. A SIZE is one with B, KiB, MiB, GiB, kB, MB or GB.`,
		Groups: []cmdline.Keys{
			{Title: "The agent", Keys: fieldKeys(agent.ConfigFields())},
			{
				Title: "Rules", Keys: fieldKeys(agent.RuleFields()),
				Text: "Each of services is a rule. All that it asks must hold of a process, and it asks at least one thing. " +
					"A PATTERN is a shell's, with * ? and [ ]. A REGEXP is Go's.",
			},
			{Title: "Alerts", Keys: fieldKeys(agent.AlertFields()), Text: "Each of alerts is a condition, for each service alone."},
			{
				Title: "Traces", Keys: fieldKeys(agent.TraceFields()),
				Text: "trace of an alert is a time, or these fields: {for: 1m, every: 24h}. One service is traced at a time.",
			},
			{
				Title: "Receivers", Keys: fieldKeys(agent.ReceiverFields()),
				Text: "Each of receivers has a command, a webhook or a webhook_file.",
			},
		},
		Paths: []cmdline.Row{{Key: defaultServeConfig, Text: "read where no other file is named by --config"}},
		Examples: []cmdline.FileExample{
			{Text: "two services of their own; growth of the first by call stack", File: `
services:
  - {name: shop, unit: shop-*.service, growth: true}
  - {name: db, program: postgres}`},
			{Text: "growth of the two services that grow most, whichever they are", File: `
watch_top: 2`},
			{Text: "a pass every half minute, for a Prometheus elsewhere that logs in", File: `
interval: 30s
listen: 10.0.0.5:9417
web_config: /etc/memtrace/web.yaml`},
			{Text: "an address is told of services that grow", File: `
alerts:
  - {name: leak, when: "growth(*)>1MiB/h", over: 6h}
receivers:
  - {name: chat, webhook: "https://chat.example.com/hook"}`},
			{Text: "a service that has become large is traced for five minutes, once a day at most", File: `
alerts:
  - {name: shop is large, when: rss(shop)>2GiB, trace: {for: 5m, every: 24h}}`},
		},
	}
}

func fieldKeys(fields []agent.Field) []cmdline.Key {
	var out []cmdline.Key
	for _, f := range fields {
		out = append(out, cmdline.Key{Name: f.Name, Metavar: f.Value, Text: f.Text, Default: f.Default})
	}
	return out
}

func configFormat(p *cmdline.Program) cmdline.Format {
	return cmdline.Format{
		Name: "memtrace-config", Summary: "defaults for memtrace's options", See: []string{"memtrace-config"},
		Description: `The file config.yaml gives options of memtrace other defaults than memtrace's own. It is YAML, of at
most 64 KiB. A key is an option without its dashes. It is for all commands that have the option and can take the value.
A command's name is a key, too: what stands below it is for that command alone, and counts before what is for all.

An option that takes several values has a list, or one text as on the command line. One that takes no value has true or
false. An empty value takes back what a file that counts less has said. A relative path is one from the file's
directory.

The command line counts first, then variables such as MEMTRACE_INTERVAL and MEMTRACE_TOP_INTERVAL, then the user's
file, then the machine's. A file must belong to root or to the user, and nobody else may write it; the machine's must
be root's. A file that is wrong stops every command with exit code 2. These show what is in force, and what is wrong in
a file:

  memtrace config
  memtrace config --check config.yaml`,
		Groups: []cmdline.Keys{{
			Title: "Keys", Keys: configKeys(p, configSchema()),
			Text: "The page of each command has the values and defaults of its options. Options that say what to look at, " +
				"where to write or what to run come from the command line alone, and are no keys.",
		}},
		Paths: []cmdline.Row{
			{Key: "$XDG_CONFIG_HOME/" + configName, Text: "the user's; behind sudo, that of who called sudo"},
			{Key: "~/.config/" + configName, Text: "the user's, where that variable is not set"},
			{Key: machineConfig, Text: "the machine's"},
		},
		Examples: []cmdline.FileExample{{Text: "for all commands, and for memtrace top alone", File: `
interval: 5s
fail-on: [definite, "rss>2GiB"]
follow: false
top:
  sort: uss`}},
	}
}

// configKeys are the options that a file may give, in the order of their names.
func configKeys(p *cmdline.Program, schema config.Schema) []cmdline.Key {
	commands := make(map[string][]string)
	var names []string
	for i := range schema {
		f := &schema[i]
		if f.Never != "" {
			continue
		}
		if commands[f.Name] == nil {
			names = append(names, f.Name)
		}
		commands[f.Name] = append(commands[f.Name], f.Command)
	}
	slices.Sort(names)
	out := make([]cmdline.Key, len(names))
	for i, name := range names {
		out[i] = configKey(p, name, commands[name])
	}
	return out
}

// configKey is an option as its first command describes it. Each command's own page has its values and its default.
func configKey(p *cmdline.Program, name string, commands []string) cmdline.Key {
	o := p.Find(commands[0]).Option(name)
	k := cmdline.Key{Name: name, Metavar: o.Metavar, Text: o.Text}
	if o.IsBool {
		k.Metavar = "true|false"
	}
	if o.On {
		k.Text = "false: " + o.Text
	}
	k.Text += ". For " + strings.Join(commands, ", ")
	return k
}
