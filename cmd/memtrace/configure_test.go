//go:build linux && !viewer

package main

import (
	"slices"
	"testing"

	"github.com/memtrace/memtrace/cmd/memtrace/config"
)

// What top's traces leave out has to be flags of trace, or the list has gone stale.
func TestNotFromTopAreFlagsOfTrace(t *testing.T) {
	schema := configSchema()
	for _, name := range notFromTop {
		if !slices.ContainsFunc(schema, func(f config.Flag) bool { return f.Command == "trace" && f.Name == name }) {
			t.Errorf("trace has no flag %q", name)
		}
	}
}
