package main

import (
	"strings"

	"github.com/urfave/cli/v2"
)

// values are those of a flag that may be given several times, each as a whole: names
// and paths may have commas in them, at which the command line's package splits
// the values of its own kind of list.
type values struct {
	list     []string
	replaced bool // the first that is given replaces them
}

// Set takes another value.
func (v *values) Set(value string) error {
	if v.replaced {
		v.list, v.replaced = nil, false
	}
	v.list = append(v.list, value)
	return nil
}

// Get returns the values.
func (v *values) Get() any { return v.list }

// String is what the help shows as the default: nothing.
func (v *values) String() string { return strings.Join(v.list, " ") }

// wholeFlag is a flag whose value is not split at commas.
func wholeFlag(name, usage string) cli.Flag {
	return &cli.GenericFlag{Name: name, Value: new(values), Usage: usage + "; may be repeated"}
}

// wholes are the values of such a flag.
func wholes(c *cli.Context, name string) []string {
	if v, ok := c.Generic(name).(*values); ok {
		return v.list
	}
	return nil
}
