package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/memtrace/memtrace/analyzer/gate"
	"github.com/memtrace/memtrace/analyzer/threshold"
	"github.com/memtrace/memtrace/cmd/memtrace/cmdline"
)

// withUsageHelp changes all commands so that they help those who mistype: times
// may be bare seconds, and an error says what was probably meant.
func withUsageHelp(app *cli.App) *cli.App {
	app.Flags = append(secondsFlags(app.Flags), cli.HelpFlag) // which package cli leaves out where there is a command help
	before := app.Before
	app.Before = func(c *cli.Context) error {
		return errors.Join(refuseLostFlags(c), refuseDashes(c), before(c))
	}
	for _, c := range app.Commands {
		c.HideHelpCommand = true // help may be an argument
		c.Flags = secondsFlags(c.Flags)
		c.OnUsageError = onUsageError
		if c.Before == nil {
			c.Before = refuseDashes
		}
	}
	return app
}

// withUnit are times of which nobody can say what a bare number is.
var withUnit = []string{"stall-budget"}

func secondsFlags(flags []cli.Flag) []cli.Flag {
	out := slices.Clone(flags)
	for i := range out {
		if f, ok := out[i].(*cli.DurationFlag); ok {
			out[i] = &secondsFlag{f}
		}
	}
	return out
}

// secondsFlag is a flag of a time, where a bare number is seconds.
type secondsFlag struct{ *cli.DurationFlag }

// Apply adds the flag to those to parse.
func (f *secondsFlag) Apply(set *flag.FlagSet) error {
	own := flag.NewFlagSet("", flag.ContinueOnError)
	if err := f.DurationFlag.Apply(own); err != nil {
		return err
	}
	own.VisitAll(func(one *flag.Flag) {
		set.Var(&seconds{one.Value, !slices.Contains(withUnit, f.Name)}, one.Name, one.Usage)
	})
	return nil
}

// DefaultDuration is the value where none is given; empty for none.
func (f *secondsFlag) DefaultDuration() string {
	if f.Value == 0 {
		return ""
	}
	return f.Value.String()
}

// seconds is the value of such a flag.
type seconds struct {
	flag.Value
	bare bool
}

// Get returns the time.
func (s *seconds) Get() any {
	d, _ := time.ParseDuration(s.String()) // which a time has written
	return d
}

// Set reads a time.
func (s *seconds) Set(text string) error {
	if _, err := strconv.ParseFloat(text, 64); err == nil && s.bare {
		text += "s"
	}
	if s.Value.Set(text) != nil {
		return errors.New("a time is wanted, such as 500ms, 30s or 5m")
	}
	return nil
}

var (
	unknownFlag  = regexp.MustCompile(`^flag provided but not defined: -(.*)$`)
	valueMissing = regexp.MustCompile(`^flag needs an argument: -(.*)$`)
	valueWrong   = regexp.MustCompile(`(?s)^invalid (?:boolean )?value (".*") for (?:flag )?-(\S+): (.*)$`)
)

// onUsageError says what is wrong with a flag, and what to do.
func onUsageError(c *cli.Context, err error, _ bool) error {
	name, flags := "memtrace", c.App.Flags
	if c.Command != nil && c.Command.Name != "" && c.Command.Name != "memtrace" {
		name, flags = name+" "+c.Command.Name, c.Command.Flags
	}
	c.App.Metadata[typedKey] = namesOf(flags) // it is about what was typed, whichever that is
	text := err.Error()
	if m := unknownFlag.FindStringSubmatch(text); m != nil {
		return usageError("unknown flag %s%s (%s --help lists the flags)", written(m[1]), flagMeant(m[1], flags), name)
	}
	if m := valueMissing.FindStringSubmatch(text); m != nil {
		return usageError("%s needs a value (%s --help explains it)", written(m[1]), name)
	}
	if m := valueWrong.FindStringSubmatch(text); m != nil {
		return usageError("%s %s: %s (%s --help explains it)", written(m[2]), m[1], reason(m[3]), name)
	}
	return usageError("%v (%s --help lists the flags)", err, name)
}

// reason says what package flag means by a parse error.
func reason(text string) string {
	if text == "parse error" || strings.HasPrefix(text, "strconv.") {
		return "a number is wanted"
	}
	return text
}

// written is a flag as it is typed.
func written(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// flagMeant asks for the flag that was probably meant.
func flagMeant(typed string, flags []cli.Flag) string {
	names := []string{"help", "version"}
	for _, f := range flags {
		names = append(names, f.Names()...)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return len(name) < 2 })
	if near := cmdline.Nearest(typed, names); near != "" {
		return fmt.Sprintf("; did you mean --%s?", near)
	}
	return ""
}

// noneOf refuses a value that is none of a few words.
func noneOf(what, value string, words []string) error {
	return usageError("%s %q is none of %s%s", what, value, strings.Join(words, ", "), didYouMean(value, words))
}

// refuseArguments refuses what is left after the flags: a mistyped command, or
// a flag's value after a stray word, would otherwise be ignored without a word.
func refuseArguments(c *cli.Context) error {
	if !c.Args().Present() {
		return nil
	}
	arg := c.Args().First()
	if c.Command.Name == "memtrace" && c.NumFlags() == 0 {
		return commandMeant(c, arg)
	}
	for _, rest := range c.Args().Slice() {
		if strings.HasPrefix(rest, "-") {
			return usageError("the flag %s comes after the argument %q; put flags first", rest, arg)
		}
	}
	return usageError("unknown command or argument %q (memtrace --help lists the commands)", arg)
}

// commandMeant refuses an unknown command, and says what was probably meant.
func commandMeant(c *cli.Context, arg string) error {
	var names []string
	for _, command := range c.App.Commands {
		if !command.Hidden {
			names = append(names, command.Name)
		}
	}
	if ask := didYouMean(arg, names); ask != "" {
		return usageError("unknown command or argument %q%s (memtrace --help lists the commands)", arg, ask)
	}
	if pid, err := strconv.Atoi(arg); err == nil && pid > 0 {
		return usageError("unknown command or argument %q: to trace process %d, write memtrace -p %d", arg, pid, pid)
	}
	if _, err := exec.LookPath(arg); err == nil {
		line := strings.Join(c.Args().Slice(), " ")
		return usageError("unknown command or argument %q: to start a program, write memtrace run -- %s", arg, line)
	}
	return usageError("unknown command or argument %q (memtrace --help lists the commands)", arg)
}

// refuseLostFlags refuses flags before a command, which would not reach it.
func refuseLostFlags(c *cli.Context) error {
	command := c.App.Command(c.Args().First())
	if command == nil || c.NumFlags() == 0 {
		return nil
	}
	return usageError("the flag %s comes before the command %s, which does not see it: write memtrace %s %[1]s",
		written(c.LocalFlagNames()[0]), command.Name, command.Name)
}

// refuseDashes refuses "--" as the value of a flag: the value is what was forgotten.
func refuseDashes(c *cli.Context) error {
	for _, name := range c.LocalFlagNames() {
		if value := fmt.Sprint(c.Value(name)); value == "--" || value == "[--]" {
			return usageError("%s needs a value, and -- follows it", written(name))
		}
	}
	return nil
}

// refuseLateFlags refuses a flag of run among the arguments of its command:
// most likely it was meant for memtrace. After "--" nobody is asked.
func refuseLateFlags(c *cli.Context, argv []string) error {
	line, _ := c.App.Metadata[argumentsKey].([]string)
	if at := len(line) - len(argv) - 1; at >= 0 && line[at] == "--" {
		return nil
	}
	for _, arg := range argv[1:] {
		if arg == "--" {
			return nil
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		if !strings.HasPrefix(arg, "--") || len(name) < 2 || name == "help" {
			continue // one letter means something to most programs
		}
		if slices.ContainsFunc(c.Command.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) }) {
			return usageError("--%s after the command is the command's own: for memtrace, put it before %s; "+
				"for the command, write memtrace run [flags] -- %s", name, argv[0], strings.Join(argv, " "))
		}
	}
	return nil
}

// argumentsKey is where the application keeps the whole command line.
const argumentsKey = "arguments"

// conditionMeant adds to an error of --fail-on what was probably meant.
func conditionMeant(texts []string) string {
	for _, text := range texts {
		for part := range strings.SplitSeq(text, ",") {
			name := strings.TrimSpace(part)
			bare := !strings.ContainsAny(name, "<>")
			if limit := redirected(); bare && limit != "" && slices.Contains(gate.Figures(), figureName(name)) {
				return fmt.Sprintf("; the shell took >%s for a redirection and has made a file of that name: "+
					"write the limit in quotes, --fail-on '%s>%s'", limit, name, limit)
			}
			if name = figureName(name); name != "" && !slices.Contains(conditionWords(), name) {
				return didYouMean(name, conditionWords())
			}
		}
	}
	return ""
}

// figureName is what a condition begins with.
func figureName(condition string) string {
	if end := strings.IndexAny(condition, "<>=("); end >= 0 {
		condition = condition[:end]
	}
	return strings.TrimSpace(condition)
}

// redirected is the name of the file that stdout goes to, if it reads as the
// limit of a condition does: "64", "=100MiB". A shell makes such files of a > without quotes.
func redirected() string {
	path, err := os.Readlink("/proc/self/fd/1")
	if err != nil || !filepath.IsAbs(path) {
		return ""
	}
	name := filepath.Base(path)
	if _, err := threshold.ParseQuantity(strings.TrimPrefix(name, "=")); err != nil {
		return ""
	}
	return name
}

// Bounds on an error's text: a value from the command line may be of any length.
const (
	maxErrorLine  = 800
	maxErrorLines = 40
)

// shortened cuts the middle out of long lines: the flag and the head of its
// value come first, and what is wrong with it last.
func shortened(text string) string {
	lines := strings.Split(text, "\n")
	if len(lines) > maxErrorLines {
		left := len(lines) - maxErrorLines
		lines = append(lines[:maxErrorLines], fmt.Sprintf("(%d more lines)", left))
	}
	for i, line := range lines {
		if len(line) > maxErrorLine {
			const part = maxErrorLine / 2
			left := fmt.Sprintf(" … (%d bytes left out) … ", len(line)-2*part)
			lines[i] = strings.ToValidUTF8(line[:part]+left+line[len(line)-part:], "")
		}
	}
	return strings.Join(lines, "\n")
}
