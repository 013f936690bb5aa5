//go:build linux && !viewer

package main

import (
	"slices"
	"strings"
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

// A configuration takes what the command line does, of each command: ranges, words, and lists only where there are
// lists.
func TestConfigurationTakesWhatTheCommandLineDoes(t *testing.T) {
	schema := configSchema()
	for _, c := range []struct {
		command, flag, value string
		wrong                string // "": it is right
	}{
		{"trace", "interval", "50ms", ""},
		{"trace", "interval", "49ms", "it must be at least 50ms"},
		{"top", "interval", "99ms", "it must be at least 100ms"},
		{"trace", "duration", "-1s", "it must be at least 0s"},
		{"trace", "duration", "0", ""},
		{"trace", "keep", "0", ""},
		{"trace", "flight", "999ms", "it must be at least 1s, or 0 for none"},
		{"top", "stall-budget", "2s", ""},
		{"snapshot", "stall-budget", "2s", "it must be from 0s to 1s"},
		{"trace", "top", "-1", "it must be at least 0"},
		{"run", "stack-depth", "0", "it must be from 1 to "},
		{"leaks", "error-exitcode", "256", "it must be from 1 to 255"},
		{"trace", "memory", "1MiB", "it must be at least 67108864 bytes"},
		{"trace", "max-size", "1KiB", "it must be at least 65536 bytes"},
		{"trace", "sample-bytes", "8GiB", "it must be at most 4294967295 bytes"},
		{"snapshot", "hysteresis", "101%", "it must be at most 100%"},
		{"trace", "sort", "-live", "none of "},
		{"trace", "sort", "live,peak", "none of "},
		{"trace", "format", "text,json", "none of "},
		{"top", "sort", "-uss", ""},
		{"top", "sort", "uss,rss", "none of "},
		{"trace", "kind", "alloc,free", ""},
		{"trace", "kind", "alloc,nothing", "none of "},
		{"trace", "alloc-fn", "a:size=1,ret,b:size=2", ""},
		{"trace", "alloc-fn", "a", "a"},
		{"trace", "fail-on", "definite,rss>1GiB", ""},
		{"web", "listen", "nowhere", "missing port"},
	} {
		at := slices.IndexFunc(schema, func(f config.Flag) bool { return f.Command == c.command && f.Name == c.flag })
		err := schema[at].Check([]string{c.value})
		if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s of %s: %q: %v, want %q", c.flag, c.command, c.value, err, c.wrong)
		}
	}
}
