package cmdline

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// Program is a command line: what it is called with no command, and its commands.
type Program struct {
	Name     string
	Summary  string // one line
	Groups   []string
	Root     Command // what the program does where no command is named
	Commands []Command
	Topics   []Topic
	Formats  []Format // of files that it reads
	NoManual bool     // there are no manual pages to point to
}

// Command is one command, with all that its help and its manual page say.
type Command struct {
	Name        string
	Summary     string   // one line, no capital and no full stop
	Synopsis    []string // lines
	Description string   // paragraphs, separated by empty lines; one that begins with blanks is kept as it is
	Options     []Option
	Examples    []Example
	Exit        []Row
	See         []string // topics and commands
	Arguments   Detail   // what completes its arguments
	Hidden      bool
}

// Option is one flag.
type Option struct {
	Detail
	Name    string
	Short   string // one letter, or none
	Text    string // one idea, no capital and no full stop
	Default string // as shown; empty where there is nothing to show
	IsBool  bool   // it takes no value
	On      bool   // it takes no value and is on unless =false is given
	Many    bool   // it may be given several times
}

// Detail is what a flag of package cli has no place for.
type Detail struct {
	Group   string
	Metavar string // what its value is called
	// Words are all values that there are, if they can be listed; the help shows them.
	Words []string
	// Hints are values that are too many to show, for completion alone.
	Hints []string
	// Values complete what cannot be listed beforehand.
	Values Values
}

// Values say what completes a word.
type Values int

// What completes a word.
const (
	NoValues   Values = iota
	Files             // a file's name
	Processes         // process IDs
	Names             // names of processes
	Containers        // IDs of containers
	Groups            // paths of control groups
	Programs          // a command, and then its arguments
)

// Example is a command and what it does.
type Example struct{ Line, Text string }

// Row is a line of a table of two columns.
type Row struct{ Key, Text string }

// Topic is a text about a task.
type Topic struct{ Name, Summary, Text string }

// Describe makes the options of a command from its flags. The details are
// looked up as "COMMAND NAME" and, where there is none, as "NAME".
func Describe(command string, flags []cli.Flag, details map[string]Detail) []Option {
	out := make([]Option, 0, len(flags))
	for _, flag := range flags {
		if v, ok := flag.(cli.VisibleFlag); ok && !v.IsVisible() {
			continue
		}
		o := describe(flag)
		detail, ok := details[command+" "+o.Name]
		if !ok {
			detail = details[o.Name]
		}
		if detail.Metavar == "" && !o.IsBool {
			detail.Metavar = o.Metavar
		}
		o.Detail = detail
		out = append(out, o)
	}
	return out
}

func describe(flag cli.Flag) Option {
	var o Option
	for _, name := range flag.Names() {
		if len(name) == 1 {
			o.Short = name
		} else if o.Name == "" {
			o.Name = name
		}
	}
	if d, ok := flag.(cli.DocGenerationFlag); ok {
		o.IsBool = !d.TakesValue()
		o.Text, o.Metavar = quoted(d.GetUsage())
	}
	if o.IsBool {
		b, ok := flag.(*cli.BoolFlag)
		o.On = ok && b.Value
		return o
	}
	if d, ok := flag.(cli.DocGenerationSliceFlag); ok {
		o.Many = d.IsSliceFlag()
	}
	o.Default = defaultOf(flag)
	return o
}

// quoted takes a metavariable in backquotes, package cli's own convention, out of a text.
func quoted(text string) (plain, metavar string) {
	before, rest, found := strings.Cut(text, "`")
	name, after, closed := strings.Cut(rest, "`")
	if !found || !closed {
		return text, "VALUE"
	}
	return before + name + after, name
}

// defaultOf is the value of a flag that is not given; empty for the zero value.
func defaultOf(flag cli.Flag) string {
	switch f := flag.(type) {
	case *cli.StringFlag:
		return f.Value
	case *cli.PathFlag:
		return f.Value
	case *cli.IntFlag:
		return nonZero(int64(f.Value))
	case *cli.Int64Flag:
		return nonZero(f.Value)
	case interface{ DefaultDuration() string }:
		return f.DefaultDuration()
	case *cli.DurationFlag:
		if f.Value != 0 {
			return f.Value.String()
		}
	}
	return ""
}

func nonZero(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// Find returns the command of a name; nil if there is none.
func (p *Program) Find(name string) *Command {
	for i := range p.Commands {
		if p.Commands[i].Name == name {
			return &p.Commands[i]
		}
	}
	return nil
}

// Topic returns the topic of a name; nil if there is none.
func (p *Program) Topic(name string) *Topic {
	for i := range p.Topics {
		if p.Topics[i].Name == name {
			return &p.Topics[i]
		}
	}
	return nil
}

// visible are the commands that people are told of.
func (p *Program) visible() []*Command {
	var out []*Command
	for i := range p.Commands {
		if !p.Commands[i].Hidden {
			out = append(out, &p.Commands[i])
		}
	}
	return out
}

// Option returns the option of a name, long or short; nil if there is none.
func (c *Command) Option(name string) *Option {
	i := slices.IndexFunc(c.Options, func(o Option) bool { return name != "" && (o.Name == name || o.Short == name) })
	if i < 0 {
		return nil
	}
	return &c.Options[i]
}

// group are a command's options of one group.
func (c *Command) group(name string) []Option {
	var out []Option
	for _, o := range c.Options {
		if o.Group == name {
			out = append(out, o)
		}
	}
	return out
}

// groups are the groups that a command has, in the program's order; what has
// none comes last.
func (c *Command) groups(all []string) []string {
	var out []string
	for _, g := range append(slices.Clone(all), "") {
		if len(c.group(g)) > 0 {
			out = append(out, g)
		}
	}
	return out
}

// Long is how an option is written: "--pid PID", "--hold=false", "--leaks".
func (o *Option) Long() string {
	switch {
	case o.On:
		return "--" + o.Name + "=false"
	case o.IsBool:
		return "--" + o.Name
	}
	return "--" + o.Name + " " + o.Metavar
}

// Sentence is the option's text with its values and its default, each once.
func (o *Option) Sentence() string {
	text := o.Text
	if len(o.Words) > 0 {
		words := slices.Clone(o.Words)
		if i := slices.Index(words, o.Default); i >= 0 {
			words[i] += " (default)"
		}
		return text + ": " + strings.Join(words, ", ")
	}
	if o.Default != "" {
		text += " (default: " + o.Default + ")"
	}
	return text
}
