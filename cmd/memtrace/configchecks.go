//go:build linux && !viewer

package main

import (
	"fmt"
	"math"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/memtrace/memtrace/analyzer/gate"
	"github.com/memtrace/memtrace/analyzer/threshold"
	"github.com/memtrace/memtrace/analyzer/wrapper"
	"github.com/memtrace/memtrace/cmd/memtrace/cmdline"
	"github.com/memtrace/memtrace/cmd/memtrace/tui/top"
	"github.com/memtrace/memtrace/tracer"
	"github.com/memtrace/memtrace/tracer/probe"
)

// checkConfigured refuses values of the right kind that a flag does not take. The flag has them as its default already.
func checkConfigured(command string, f cli.Flag, o cmdline.Option, values []string) error {
	if o.Default == "" && !o.IsBool && slices.Equal(values, []string{""}) {
		return nil // none, as the flag has where nobody gives it
	}
	name := f.Names()[0]
	if command == "top" && name == "sort" {
		return checkWords([]string{strings.TrimPrefix(values[0], "-")}, o.Hints)
	}
	if len(o.Words) > 0 {
		if takesMany(f) {
			values = strings.Split(strings.Join(values, ","), ",")
		}
		return checkWords(values, o.Words)
	}
	if r, ok := ofCommandOrAll(configRanges, command, name); ok {
		return r.check(f)
	}
	if check, ok := ofCommandOrAll(configChecks, command, name); ok {
		return check(values)
	}
	return nil
}

// ofCommandOrAll looks up "COMMAND NAME", and then "NAME".
func ofCommandOrAll[T any](all map[string]T, command, name string) (T, bool) {
	one, ok := all[command+" "+name]
	if !ok {
		one, ok = all[name]
	}
	return one, ok
}

func checkWords(values, words []string) error {
	for _, word := range values {
		if word = strings.TrimSpace(word); !slices.Contains(words, word) {
			return fmt.Errorf("none of %s%s", strings.Join(words, ", "), didYouMean(word, words))
		}
	}
	return nil
}

// A valueRange has the values that a flag of numbers, or of times in ns, takes. 0 is among them where it means none.
type valueRange struct {
	least, most int64
	orNone      bool
}

const noMost = math.MaxInt64

// configRanges are those of flags. What a command takes only of its own has an entry "COMMAND NAME".
var configRanges = map[string]valueRange{
	"interval":         {least: int64(leastInterval), most: noMost},
	"top interval":     {least: int64(leastTopInterval), most: noMost},
	"duration":         {most: noMost},
	"warmup":           {most: noMost},
	"time-limit":       {most: noMost},
	"keep":             {least: int64(leastKept), most: noMost, orNone: true},
	"flight":           {least: int64(leastKept), most: noMost, orNone: true},
	"timeline":         {least: int64(time.Microsecond), most: noMost, orNone: true},
	"stall-budget":     {most: int64(time.Second)},
	"top stall-budget": {most: noMost},
	"top":              {most: noMost},
	"frames":           {most: noMost},
	"columns":          {most: noMost},
	"threshold":        {most: noMost},
	"stack-depth":      {least: 1, most: tracer.MaxStackDepth},
	"error-exitcode":   {least: 1, most: 255},
}

func (r valueRange) check(f cli.Flag) error {
	var v int64
	text := func(n int64) string { return fmt.Sprint(n) }
	switch f := f.(type) {
	case *secondsFlag:
		v, text = int64(f.Value), func(n int64) string { return fmt.Sprint(time.Duration(n)) }
	case *cli.IntFlag:
		v = int64(f.Value)
	case *cli.Int64Flag:
		v = f.Value
	}
	switch {
	case v >= r.least && v <= r.most, v == 0 && r.orNone:
		return nil
	case r.most != noMost:
		return fmt.Errorf("it must be from %s to %s", text(r.least), text(r.most))
	case r.orNone:
		return fmt.Errorf("it must be at least %s, or 0 for none", text(r.least))
	}
	return fmt.Errorf("it must be at least %s", text(r.least))
}

// configChecks are of flags whose texts mean more than their kind says.
var configChecks = map[string]func(values []string) error{
	"memory":        sizeFrom(leastMemory, math.MaxUint64),
	"sample-bytes":  sizeFrom(0, math.MaxUint32),
	"back-pressure": sizeFrom(0, math.MaxUint32),
	"max-size":      sizeFrom(leastRecording, 1<<62),
	"max-overhead":  each(func(text string) error { _, err := parseOverhead(text); return err }),
	"fail-on":       func(texts []string) error { _, err := gate.ParseRules(texts); return err },
	"freeze-on":     joined(func(text string) error { _, err := readFreezeConditions(text); return err }),
	"watch":         joined(func(text string) error { _, err := threshold.ParseList(text); return err }),
	"hysteresis":    each(func(text string) error { _, err := parseHysteresis(text); return err }),
	"wrapper":       func(texts []string) error { _, err := wrapper.Read(texts); return err },
	"alloc-fn":      functions(func(text string) error { _, err := probe.ParseAllocFunction(text); return err }),
	"free-fn":       functions(func(text string) error { _, err := probe.ParseFreeFunction(text); return err }),
	"filter":        each(func(text string) error { _, err := top.ParseFilter(text); return err }),
	"listen":        each(func(text string) error { _, _, err := net.SplitHostPort(text); return err }),
}

func sizeFrom(least, most uint64) func([]string) error {
	return each(func(text string) error {
		switch size, err := threshold.ParseSize(text); {
		case err != nil:
			return err
		case size < least:
			return fmt.Errorf("it must be at least %d bytes", least)
		case size > most:
			return fmt.Errorf("it must be at most %d bytes", most)
		}
		return nil
	})
}

func each(check func(string) error) func([]string) error {
	return func(values []string) error {
		for _, value := range values {
			if err := check(value); err != nil {
				return err
			}
		}
		return nil
	}
}

// joined is for lists of conditions, in whose names there may be commas.
func joined(check func(string) error) func([]string) error {
	return func(values []string) error { return check(strings.Join(values, ",")) }
}

// functions is for functions, whose arguments have commas between them.
func functions(check func(string) error) func([]string) error {
	return func(values []string) error {
		return each(check)(wholeValues(strings.Split(strings.Join(values, ","), ",")))
	}
}
