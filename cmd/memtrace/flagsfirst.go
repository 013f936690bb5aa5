package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// commandsWithArguments are those of an app that flags may come after the arguments of: not run and record, whose
// arguments are a command of its own flags.
func commandsWithArguments(app *cli.App) []*cli.Command {
	out := savedCommands()
	if c := app.Command("config"); c != nil { // the viewer has none
		out = append(out, c)
	}
	return out
}

// flagsFirst puts the flags of a command that takes arguments before these: what parses
// them would take a flag after an argument for one more. What comes after -- stays.
func flagsFirst(args []string, commands []*cli.Command) []string {
	if len(args) < 2 {
		return args
	}
	i := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.Name == args[1] })
	if i < 0 {
		return args
	}
	flags, files := []string{}, []string{}
	for rest := args[2:]; len(rest) > 0; rest = rest[1:] {
		arg := rest[0]
		if arg == "--" {
			files = append(files, rest[1:]...)
			break
		}
		if len(arg) < 2 || arg[0] != '-' {
			files = append(files, arg)
			continue
		}
		flags = append(flags, arg)
		if takesValue(commands[i], arg) && len(rest) > 1 {
			rest = rest[1:]
			flags = append(flags, rest[0])
		}
	}
	out := append([]string{args[0], args[1]}, flags...)
	return append(append(out, "--"), files...)
}

// takesValue reports whether the argument after a flag is its value.
func takesValue(c *cli.Command, arg string) bool {
	name := strings.TrimLeft(arg, "-")
	if strings.Contains(name, "=") {
		return false
	}
	for _, f := range c.Flags {
		if flag, ok := f.(cli.DocGenerationFlag); ok && slices.Contains(f.Names(), name) {
			return flag.TakesValue()
		}
	}
	return false
}
