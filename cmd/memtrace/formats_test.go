//go:build linux && !viewer

package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/memtrace/memtrace/cmd/memtrace/agent"
	"github.com/memtrace/memtrace/cmd/memtrace/config"
)

// Each key in memtrace-config(5) is one that a file may have, and all that a file may have are in it. What
// memtrace.yaml(5) says is what the agent's own list says.
func TestManualsHaveTheKeys(t *testing.T) {
	schema, listed := configSchema(), make(map[string]bool)
	for _, k := range configFormat(commandLine()).Groups[0].Keys {
		listed[k.Name] = true
		if k.Text == "" || k.Metavar == "" {
			t.Errorf("%s has no text: %+v", k.Name, k)
		}
		// A list in a list is no value of any flag.
		_, err := config.Parse("f.yaml", []byte(k.Name+": [[]]\n"), schema)
		if err == nil || !strings.HasSuffix(err.Error(), k.Name+": a value is wanted") {
			t.Errorf("%s is refused as a key: %v", k.Name, err)
		}
	}
	for i := range schema {
		if f := &schema[i]; f.Never == "" && !listed[f.Name] {
			t.Errorf("memtrace-config(5) lacks %s of %s", f.Name, f.Command)
		}
	}
	page := manualPages(time.Unix(0, 0))["memtrace.yaml.5"]
	for _, f := range slices.Concat(agent.ConfigFields(), agent.RuleFields(), agent.AlertFields(), agent.ReceiverFields()) {
		if !strings.Contains(page, ".It Ic "+f.Name+" : Ar ") {
			t.Errorf("memtrace.yaml(5) lacks %s", f.Name)
		}
	}
}

// What completes the word after memtrace config are the commands that it knows.
func TestConfigIsCompleted(t *testing.T) {
	if got, want := configuredCommands(), configSchema().Commands(); !slices.Equal(got, want) {
		t.Errorf("config is completed by %q, and knows %q", got, want)
	}
	words := helpWords()
	if slices.Sort(words); len(slices.Compact(words)) != len(helpWords()) {
		t.Errorf("help is completed by a word twice: %q", helpWords())
	}
}

// The examples in memtrace.yaml(5) and memtrace-config(5) are files that are taken.
func TestManualsShowGoodFiles(t *testing.T) {
	for _, e := range serveFormat().Examples {
		if _, err := agent.ParseConfig([]byte(e.File)); err != nil {
			t.Errorf("%s: %v", e.File, err)
		}
	}
	for _, e := range configFormat(commandLine()).Examples {
		if entries, err := config.Parse("f.yaml", []byte(e.File), configSchema()); err != nil || len(entries) == 0 {
			t.Errorf("%s: %v", e.File, err)
		}
	}
}
