//go:build linux && !viewer

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/cmd/memtrace/config"
)

const configDescription = `Shows which flags have another default than memtrace's own, and who set it. With COMMAND
it shows all flags of that command. The command line counts first, then variables, then
the user's file, then the machine's file, then what is built in.

Variables: MEMTRACE_, then the flag in capitals with _ for -. MEMTRACE_INTERVAL=5s sets --interval for all commands
that have it, MEMTRACE_TOP_INTERVAL=5s for top alone. An empty variable counts as unset. The command of memtrace run
gets all variables as they are.

Files: $XDG_CONFIG_HOME/memtrace/config.yaml (without that variable, ~/.config/memtrace/config.yaml) and
/etc/memtrace/config.yaml, in YAML:

  interval: 5s            # for all commands that have --interval
  fail-on: [definite, "rss>2GiB"]
  follow: false
  top:                    # for memtrace top alone
    sort: uss

What stands below a command counts before what is for all commands. What is for all commands is passed over by a
command whose flag can't take it.

Behind sudo, the user's file is that of who called sudo. A file must belong to root or to that user, and nobody else
may write it. Otherwise no command runs, and the exit code is 2: a job would run without the file's fail-on, and
pass.

Such a value is a default. Where a flag needs another one, as --max-size needs -o, it is no error alone. Where two
flags exclude each other, it is one, and the error says where the value comes from. The command line takes it back:
--leaks=false, --fail-on '', -d 0.

Only the command line says what to look at (-p, --comm, --all), where to write (-o, --report, --junit) and what to
run. memtrace-config(5) lists the keys. memtrace serve has a file of its own, memtrace.yaml(5).`

func configFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "format", Value: "text", Usage: "format of the output"},
		&cli.PathFlag{Name: "check", Usage: "check this file instead, and say what is wrong with it"},
	}
}

func configCommand(c *cli.Context) error {
	format, command := c.String("format"), c.Args().First()
	schema := configSchema()
	switch {
	case !slices.Contains(configFormats, format):
		return noneOf("--format", format, configFormats)
	case c.NArg() > 1:
		return usageError("config shows one command, or all: memtrace config [COMMAND]")
	case command != "" && !slices.Contains(schema.Commands(), command):
		meant := didYouMean(command, schema.Commands())
		return usageError("config knows no command %q with defaults to set%s", command, meant)
	case c.Path("check") != "":
		return checkConfig(c.Path("check"), schema)
	}
	found := readConfiguration(schema)
	show := shownConfig{Schema: "memtrace.config/1", Variables: []string{}, Files: shownFiles(found.files), Flags: shownFlags(found, command)}
	for i := range found.variables {
		show.Variables = append(show.Variables, found.variables[i].Where)
	}
	slices.Sort(show.Variables)
	for _, text := range found.warnings() {
		fmt.Fprintf(os.Stderr, "memtrace: warning: %s\n", render.Clean(text))
	}
	var err error
	if format == "json" {
		err = json.NewEncoder(os.Stdout).Encode(show)
	} else {
		err = show.write(os.Stdout, command != "")
	}
	return errors.Join(err, found.err)
}

var configFormats = []string{string(render.Text), string(render.JSON)}

// checkConfig reads a file as if it were in force.
func checkConfig(path string, schema config.Schema) error {
	f, err := openAsCaller(path)
	if err != nil {
		return fmt.Errorf("check a configuration: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, config.MaxFile+1))
	if err != nil {
		return fmt.Errorf("check a configuration: %w", err)
	}
	if _, err := config.Parse(path, text, schema); err != nil {
		return err
	}
	_, err = fmt.Printf("%s: fine\n", render.Clean(path))
	return err
}

// shownConfig is the output of memtrace config in JSON.
type shownConfig struct {
	Schema    string       `json:"schema"`
	Variables []string     `json:"variables"` // that are set
	Files     []shownFile  `json:"files"`     // the one that counts first
	Flags     []shownValue `json:"flags"`     // that a configuration may have, of each command
}

type shownFile struct {
	Path  string `json:"path"`
	State string `json:"state"` // read, absent, or with a why: hidden, refused, wrong
	Why   string `json:"why,omitempty"`
}

type shownValue struct {
	Command string   `json:"command"`
	Flag    string   `json:"flag"`
	Values  []string `json:"values"` // none: the flag has no default
	From    string   `json:"from"`   // built-in, variable, or file
	Where   string   `json:"where,omitempty"`
}

func shownFiles(files []*configFile) []shownFile {
	var out []shownFile
	for _, f := range files {
		show := shownFile{Path: f.path, State: "read"}
		switch {
		case f.absent:
			show.State = "absent"
		case f.hidden != nil:
			show.State, show.Why = "hidden", f.hidden.Error()
		case f.refused != nil:
			show.State, show.Why = "refused", f.refused.Error()
		case f.err != nil:
			show.State, show.Why = "wrong", f.err.Error()
		}
		out = append(out, show)
	}
	return out
}

// shownFlags are the flags of a command, or of all if it is "", that a configuration may have.
func shownFlags(found *configuration, command string) []shownValue {
	out := []shownValue{}
	for i := range found.schema {
		f := &found.schema[i]
		if f.Never != "" || command != "" && f.Command != command {
			continue
		}
		show := shownValue{Command: f.Command, Flag: f.Name, Values: []string{}, From: "built-in"}
		if f.Default != "" {
			show.Values = []string{f.Default}
		}
		if e := found.inForce(f); e != nil {
			show.Values, show.From, show.Where = e.Values, "file", e.Where
			if strings.HasPrefix(e.Where, config.Prefix) {
				show.From = "variable"
			}
		}
		out = append(out, show)
	}
	return out
}

// write shows it as text. Without all, what is built in is left out, and the commands that have a value are one row.
func (s *shownConfig) write(w io.Writer, all bool) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range s.Files {
		fmt.Fprintf(t, "%s\t%s\n", render.Clean(f.Path), f.State) // stderr says why
	}
	fmt.Fprintf(t, "%s* variables\t%d set\n\n", config.Prefix, len(s.Variables))
	if err := t.Flush(); err != nil {
		return err
	}
	rows := s.rows(all)
	if len(rows) == 0 {
		_, err := fmt.Fprintln(w, "All flags have the defaults that are built in (memtrace config COMMAND shows them).")
		return err
	}
	fmt.Fprintln(t, "FLAG\tVALUE\tOF\tFROM")
	for _, r := range rows {
		fmt.Fprintf(t, "--%s\t%s\t%s\t%s\n", r.flag, render.Clean(r.value), strings.Join(r.commands, ", "), render.Clean(r.from))
	}
	return t.Flush()
}

// shownText is a value as text. A place that says none says so: what counts less is taken back.
func shownText(v shownValue) string {
	text := strings.Join(v.Values, ", ")
	if text == "" && v.From != "built-in" {
		return "none"
	}
	return text
}

type configRow struct {
	flag, value, from string
	commands          []string
}

func (s *shownConfig) rows(all bool) []configRow {
	var out []configRow
	for _, v := range s.Flags {
		if v.From == "built-in" && !all {
			continue
		}
		row := configRow{flag: v.Flag, value: shownText(v), from: v.Where}
		if row.from == "" {
			row.from = v.From
		}
		at := slices.IndexFunc(out, func(r configRow) bool { return r.flag == row.flag && r.from == row.from && r.value == row.value })
		if at < 0 {
			out, at = append(out, row), len(out)
		}
		out[at].commands = append(out[at].commands, v.Command)
	}
	return out
}
