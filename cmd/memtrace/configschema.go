//go:build linux && !viewer

package main

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/memtrace/memtrace/cmd/memtrace/cmdline"
	"github.com/memtrace/memtrace/cmd/memtrace/config"
)

// Why some flags are the command line's alone.
const (
	ofTarget  = "it says what to look at"
	ofOutput  = "it names a file to write"
	ofCommand = "it is a command to run"
	ofInstant = "it is a time of one recording"
)

// onCommandLine are flags that no variable and no file may give, and why.
var onCommandLine = map[string]string{
	"pid": ofTarget, "comm": ofTarget, "cgroup": ofTarget, "container": ofTarget, "all": ofTarget, "risk-interpreters": ofTarget, "input": ofTarget,
	"output": ofOutput, "run report": ofOutput, "junit": ofOutput, "sarif": ofOutput, "summary": ofOutput, "gen-suppressions": ofOutput, "export": ofOutput,
	"exec": ofCommand, "at": ofInstant, "from": ofInstant, "to": ofInstant,
}

// configSchema has all flags that there are. The flags of memtrace without a command are those of trace.
func configSchema() config.Schema {
	var out config.Schema
	details := optionDetails()
	for _, c := range newApp().Commands {
		if c.Hidden || slices.Contains(notConfigured, c.Name) {
			continue
		}
		options := cmdline.Describe(c.Name, c.Flags, details)
		for i, f := range c.Flags {
			out = append(out, flagToConfigure(c.Name, f, options[i]))
		}
	}
	return out
}

func flagToConfigure(command string, f cli.Flag, o cmdline.Option) config.Flag {
	name := f.Names()[0]
	never := onCommandLine[name]
	if never == "" {
		never = onCommandLine[command+" "+name]
	}
	builtIn := o.Default
	if o.IsBool {
		builtIn = fmt.Sprint(o.On)
	}
	_, isFile := f.(*cli.PathFlag)
	check := func(values []string) error {
		if err := setDefault(f, values); err != nil { // f is nobody else's
			return err
		}
		return checkConfigured(command, f, o, values)
	}
	return config.Flag{
		Command: command, Name: name, Many: takesMany(f), File: isFile, Default: builtIn, Never: never, Check: check,
	}
}

func takesMany(f cli.Flag) bool {
	switch f.(type) {
	case *cli.StringSliceFlag, *cli.GenericFlag:
		return true
	}
	return false
}

// setDefault has a flag begin with texts, as if memtrace had them built in. It does not count as set: see given.
func setDefault(f cli.Flag, texts []string) error {
	switch f := f.(type) {
	case *cli.StringSliceFlag:
		f.Value = cli.NewStringSlice(strings.Split(strings.Join(texts, ","), ",")...) // at which the command line splits, too
		return nil
	case *cli.GenericFlag:
		f.Value = &values{list: texts, replaced: true}
		return nil
	}
	if len(texts) != 1 {
		return errors.New("one value is wanted, not a list")
	}
	value, err := parsedAs(f, texts[0])
	if err != nil {
		return err
	}
	switch f := f.(type) {
	case *cli.StringFlag:
		f.Value = value.(string)
	case *cli.PathFlag:
		f.Value = value.(string)
	case *cli.BoolFlag:
		f.Value = value.(bool)
	case *cli.IntFlag:
		f.Value = value.(int)
	case *cli.Int64Flag:
		f.Value = value.(int64)
	case *cli.Uint64Flag:
		f.Value = value.(uint64)
	case *secondsFlag:
		f.Value = value.(time.Duration)
	}
	return nil
}

// parsedAs is a text as the flag reads it on the command line.
func parsedAs(f cli.Flag, text string) (any, error) {
	set := flag.NewFlagSet("", flag.ContinueOnError)
	if err := f.Apply(set); err != nil {
		return nil, err
	}
	name := f.Names()[0]
	if err := set.Set(name, text); err != nil {
		if _, ok := f.(*cli.BoolFlag); ok {
			return nil, errors.New("true or false is wanted")
		}
		return nil, errors.New(reason(err.Error()))
	}
	return set.Lookup(name).Value.(flag.Getter).Get(), nil
}
