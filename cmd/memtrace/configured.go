package main

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/memtrace/memtrace/cmd/memtrace/config"
)

// configuredKey is where the application keeps what its command's flags have from variables and files, by the flags' names.
const configuredKey = "configured"

// typedKey is where the application keeps the names of the flags that the command line gives.
const typedKey = "typed"

// keepTyped keeps those for whence.
func keepTyped(c *cli.Context) {
	untyped := func(name string) bool { return !c.IsSet(name) }
	c.App.Metadata[typedKey] = slices.DeleteFunc(namesOf(c.Command.Flags), untyped)
}

func namesOf(flags []cli.Flag) (names []string) {
	for _, f := range flags {
		names = append(names, f.Names()[0])
	}
	return names
}

func configuredOf(app *cli.App) map[string]*config.Entry {
	entries, _ := app.Metadata[configuredKey].(map[string]*config.Entry)
	return entries
}

// given reports whether a flag has its value from the command line, a variable or a file: not from memtrace. What a
// configuration says is a default, so what needs another flag, or forbids one, goes by IsSet.
func given(c *cli.Context, name string) bool {
	return c.IsSet(name) || configuredOf(c.App)[name] != nil
}

// asksFor reports whether the command line gives a flag a value that means something. An empty one, 0 and false mean
// none: that takes back what a configuration says, and so goes with everything.
func asksFor(c *cli.Context, name string) bool {
	if !c.IsSet(name) {
		return false
	}
	switch value := c.Value(name).(type) {
	case cli.StringSlice:
		return unlessNone(value.Value()) != nil
	default:
		return !reflect.ValueOf(value).IsZero()
	}
}

// fitting is a flag's word. One that only a configuration has, and that this use of the command does not know,
// counts as none: it is for other uses.
func fitting(c *cli.Context, name string, words []string) string {
	word := c.String(name)
	if !c.IsSet(name) && !slices.Contains(words, word) {
		return ""
	}
	return word
}

// unlessNone are the values of a flag that takes several. A single empty one means none.
func unlessNone(texts []string) []string {
	if len(texts) == 1 && texts[0] == "" {
		return nil
	}
	return texts
}

// whence adds to an error of bad usage where the flags that it names have their values from, if nobody typed them.
func whence(app *cli.App, text string) string {
	said, _ := app.Metadata[typedKey].([]string)
	entries := configuredOf(app)
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		if namesFlagOf(text, name) && !slices.Contains(said, name) {
			text += fmt.Sprintf(" (--%s is set by %s)", name, entries[name].Where)
		}
	}
	return text
}

// namesFlagOf looks for a whole flag: --top is not in --topmost.
func namesFlagOf(text, name string) bool {
	for _, rest := range strings.Split(text, "--"+name)[1:] {
		if rest == "" || !strings.ContainsAny(rest[:1], "-abcdefghijklmnopqrstuvwxyz") {
			return true
		}
	}
	return false
}
