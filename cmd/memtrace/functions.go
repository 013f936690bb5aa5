//go:build linux && !viewer

package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/memtrace/memtrace/tracer/probe"
)

func allocFnFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "alloc-fn", Usage: "also trace a function that returns memory, such as pool_alloc:size=1 (memtrace help allocators)"}
}

func freeFnFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "free-fn", Usage: "also trace a function that takes memory back, such as pool_free:ptr=1"}
}

func allocatorFlag() cli.Flag {
	return &cli.StringFlag{Name: "allocator", Value: anyFamily, Usage: "trace the allocators of this family alone"}
}

func layerFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "layer", Usage: "count the blocks of an allocator above malloc, not the chunks it gets from malloc"}
}

// anyFamily: whatever allocators a process has.
const anyFamily = "auto"

func families() []string {
	names := []string{anyFamily}
	for _, f := range probe.Families() {
		names = append(names, string(f))
	}
	return names
}

// readFunctions reads which functions are to be probed.
func readFunctions(c *cli.Context) (probe.Choice, error) {
	choice := probe.Choice{ReplaceReturns: c.Bool("risk-exceptions")}
	for _, kind := range []struct {
		flag  string
		parse func(string) (probe.UserFunction, error)
	}{{"alloc-fn", probe.ParseAllocFunction}, {"free-fn", probe.ParseFreeFunction}} {
		for _, text := range wholeValues(unlessNone(c.StringSlice(kind.flag))) {
			f, err := kind.parse(text)
			if err != nil {
				return choice, usageError("--%s %v", kind.flag, err)
			}
			choice.Functions = append(choice.Functions, f)
		}
	}
	for _, name := range unlessNone(c.StringSlice("layer")) {
		functions, err := probe.Layer(name)
		if err != nil {
			return choice, usageError("--layer %v", err)
		}
		choice.Functions = append(choice.Functions, functions...)
	}
	family := c.String("allocator")
	switch {
	case !slices.Contains(families(), family) && family != "":
		return choice, noneOf("--allocator", family, families())
	case family != anyFamily:
		choice.Family = probe.Family(family)
	}
	return choice, nil
}

// wholeValues undoes that the command line's package splits values at commas:
// each function has one colon before its arguments.
func wholeValues(parts []string) (values []string) {
	for _, part := range parts {
		if n := len(values); n > 0 && isArgument(part) {
			values[n-1] += "," + part
			continue
		}
		values = append(values, part)
	}
	return values
}

// isArgument tells what a comma was followed by within the description of a
// function.
func isArgument(part string) bool {
	part = strings.TrimSpace(part)
	return part == "ret" || part == "reset" || !strings.Contains(part, ":") && strings.Contains(part, "=")
}

// unreadFiles says which files were not read for allocators.
func (s *session) unreadFiles() []string { return s.finder.Left() }

// unseenFunctions says which functions that the user named no file had.
func (s *session) unseenFunctions() []string {
	return s.finder.Unseen()
}
