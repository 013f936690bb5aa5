//go:build linux && !viewer

package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/memtrace/memtrace/analyzer/render"
	"github.com/memtrace/memtrace/cmd/memtrace/config"
)

// configure sets the defaults of the flags of the command that the arguments name, from variables and files. What is wrong
// with these is said before the command does anything; its help is shown all the same.
func configure(app *cli.App, args []string) {
	if startedByServe() {
		return // the agent says all that its tracers need
	}
	name, flags, before := "trace", app.Flags, &app.Before
	if len(args) > 1 {
		if c := app.Command(args[1]); c != nil {
			name, flags, before = c.Name, c.Flags, &c.Before
		}
	}
	schema := configSchema()
	if !slices.ContainsFunc(schema, func(f config.Flag) bool { return f.Command == name }) {
		return
	}
	found := readConfiguration(schema)
	err := found.err
	if err == nil {
		app.Metadata[configuredKey], err = applyConfiguration(found, name, flags)
	}
	then := *before
	*before = func(c *cli.Context) error {
		if c.Command.Name == app.Name && c.App.Command(c.Args().First()) != nil {
			return then(c) // the command's own comes next
		}
		keepTyped(c)
		for _, text := range found.warnings() {
			fmt.Fprintf(os.Stderr, "memtrace: warning: %s\n", render.Clean(text))
		}
		if err != nil {
			return usageError("%s (memtrace config shows all)", strings.ReplaceAll(err.Error(), "\n", "; "))
		}
		return then(c)
	}
}

// notFromTop are flags of trace whose configuration is not for a trace that Enter in memtrace top starts: a live
// screen, which its user ends, which judges nothing, and which neither stops nor endangers the process.
var notFromTop = []string{
	"duration", "format", "quiet", "verbose", "events", "kind", "min-size", "stacks", "function",
	"leaks", "stop", "warmup", "fail-on", "error-exitcode", "baseline", "suppressions", "risk-exceptions",
}

// applyConfiguration sets the defaults of a command's flags, and returns what they are from.
func applyConfiguration(found *configuration, command string, flags []cli.Flag) (map[string]*config.Entry, error) {
	out, fromTop := make(map[string]*config.Entry), os.Getenv(startedByTop) != ""
	for i := range found.schema {
		f := &found.schema[i]
		if f.Command != command || fromTop && slices.Contains(notFromTop, f.Name) {
			continue
		}
		e := found.inForce(f)
		if e == nil {
			continue
		}
		at := slices.IndexFunc(flags, func(flag cli.Flag) bool { return flag.Names()[0] == f.Name })
		if err := setDefault(flags[at], e.Values); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", e.Where, f.Name, err) // Check has tried it before
		}
		out[f.Name] = e
	}
	return out, nil
}

// A configuration is what variables and files say.
type configuration struct {
	schema    config.Schema
	variables []config.Entry
	unknown   []string // variables that are probably misspelt
	files     []*configFile
	err       error
}

// readConfiguration reads all sources.
func readConfiguration(schema config.Schema) *configuration {
	c := &configuration{schema: schema, files: configFiles(callerOf())}
	var wrong error
	c.variables, c.unknown, wrong = config.Variables(os.Environ(), schema)
	for _, f := range c.files {
		f.read(schema)
		wrong = errors.Join(wrong, f.wrong())
	}
	c.err = wrong
	return c
}

func (c *configuration) inForce(f *config.Flag) *config.Entry {
	layers := [][]config.Entry{c.variables}
	for _, file := range c.files {
		layers = append(layers, file.entries)
	}
	return config.Resolve(f, layers...)
}

// warnings say what is not read, and stops nothing.
func (c *configuration) warnings() []string {
	out := slices.Clone(c.unknown)
	for _, f := range c.files {
		if f.hidden != nil {
			out = append(out, fmt.Sprintf("%s is not read: %v", f.path, f.hidden))
		}
	}
	return out
}
