package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/memtrace/memtrace/cmd/memtrace/cmdline"
)

// Prefix is what the names of all variables begin with.
const Prefix = "MEMTRACE_"

// Variable is the variable of a flag: of one command, or of all if command is "".
func Variable(command, flag string) string {
	name := flag
	if command != "" {
		name = command + "_" + flag
	}
	return Prefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// Variables reads an environment of "NAME=VALUE": MEMTRACE_INTERVAL for all commands that have the flag, MEMTRACE_TOP_INTERVAL
// for top alone. An empty one counts as unset. unknown are names that are nearly those of flags, with a question after each.
func Variables(environment []string, s Schema) (entries []Entry, unknown []string, err error) {
	flags := s.variables()
	var wrong []error
	for _, text := range environment {
		name, value, _ := strings.Cut(text, "=")
		if !strings.HasPrefix(name, Prefix) || value == "" {
			continue
		}
		e, ok := flags[name]
		if !ok {
			if near := nearestVariable(name, flags); near != "" {
				unknown = append(unknown, fmt.Sprintf("%s is the variable of no flag; did you mean %s?", name, near))
			}
			continue
		}
		e.Values, e.Where = []string{value}, name
		if err := s.check(&e); err != nil {
			wrong = append(wrong, err)
			continue
		}
		entries = append(entries, e)
	}
	return entries, unknown, errors.Join(wrong...)
}

// variables are what all variables are of, by name.
func (s Schema) variables() map[string]Entry {
	out := make(map[string]Entry, 2*len(s))
	for i := range s {
		f := &s[i]
		out[Variable("", f.Name)] = Entry{Flag: f.Name}
		out[Variable(f.Command, f.Name)] = Entry{Command: f.Command, Flag: f.Name}
	}
	return out
}

// nearestVariable compares what comes after the prefix: that is the same in all.
func nearestVariable(name string, flags map[string]Entry) string {
	words := make([]string, 0, len(flags))
	for known := range flags {
		words = append(words, strings.TrimPrefix(known, Prefix))
	}
	slices.Sort(words)
	if near := cmdline.Nearest(strings.TrimPrefix(name, Prefix), words); near != "" {
		return Prefix + near
	}
	return ""
}
