package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/memtrace/memtrace/cmd/memtrace/cmdline"
)

// A Flag is one flag of one command.
type Flag struct {
	Command, Name string
	Many          bool   // it takes several values
	File          bool   // its value is a file to read
	Default       string // as built in; "" for none
	// Never says why only the command line may give it; "" if others may.
	Never string
	// Check says what is wrong with values, as "a number is wanted"; nil if nothing is.
	Check func(values []string) error
}

// A Schema has the flags of all commands.
type Schema []Flag

// An Entry is what a source says of a flag.
type Entry struct {
	Command string // "": all commands that have the flag
	Flag    string
	Values  []string // one, but of flags that take several
	Where   string   // the variable, or FILE:LINE
}

// of are the flags that an entry is about.
func (s Schema) of(e *Entry) Schema {
	var out Schema
	for i := range s {
		if s[i].Name == e.Flag && (e.Command == "" || s[i].Command == e.Command) {
			out = append(out, s[i])
		}
	}
	return out
}

// Commands are those that have flags, in their order.
func (s Schema) Commands() []string {
	var out []string
	for i := range s {
		if !slices.Contains(out, s[i].Command) {
			out = append(out, s[i].Command)
		}
	}
	return out
}

// names are the flags of a command, or of all if it is "".
func (s Schema) names(command string) []string {
	var out []string
	for i := range s {
		if (command == "" || s[i].Command == command) && !slices.Contains(out, s[i].Name) {
			out = append(out, s[i].Name)
		}
	}
	return out
}

// check refuses an entry that no command can take. One for all commands has to be right for one of them at least.
func (s Schema) check(e *Entry) error {
	flags := s.of(e)
	var wrong, never error
	for i := range flags {
		f := &flags[i]
		err := f.refuse(e.Values)
		switch {
		case err == nil:
			return nil
		case f.Never != "":
			never = err
		case wrong == nil:
			wrong = err
		}
	}
	if wrong == nil {
		wrong = never
	}
	return fmt.Errorf("%s: %w", e.Where, wrong)
}

func (f *Flag) refuse(values []string) error {
	if f.Never != "" {
		return fmt.Errorf("%s: give it on the command line alone, as %s", f.Name, f.Never)
	}
	if len(values) > 1 && !f.Many {
		return fmt.Errorf("%s: one value is wanted, not a list", f.Name)
	}
	if err := f.Check(values); err != nil {
		return fmt.Errorf("%s: %q: %w", f.Name, strings.Join(values, ", "), err)
	}
	return nil
}

// meant asks for the word that was probably meant.
func meant(typed string, words []string) string {
	if near := cmdline.Nearest(typed, words); near != "" {
		return fmt.Sprintf("; did you mean %s?", near)
	}
	return ""
}
