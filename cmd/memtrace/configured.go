package main

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/memtrace/memtrace/cmd/memtrace/config"
)

// configuredKey is where the application keeps what its command's flags have from variables and files, by the flags' names.
const configuredKey = "configured"

func configuredOf(app *cli.App) map[string]*config.Entry {
	entries, _ := app.Metadata[configuredKey].(map[string]*config.Entry)
	return entries
}

// given reports whether a flag has its value from the command line, a variable or a file: not from memtrace. What a
// configuration says is a default, so what needs another flag, or forbids one, goes by IsSet.
func given(c *cli.Context, name string) bool {
	return c.IsSet(name) || configuredOf(c.App)[name] != nil
}

// whence adds to an error of bad usage where the flags that it names have their values from, if nobody typed them.
func whence(app *cli.App, text string) string {
	for name, e := range configuredOf(app) {
		if namesFlagOf(text, name) {
			text += fmt.Sprintf(" (--%s is set by %s)", name, e.Where)
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
