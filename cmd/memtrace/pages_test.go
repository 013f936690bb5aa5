package main

import (
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/memtrace/memtrace/cmd/memtrace/cmdline"
)

// allCommands are memtrace without a command, by the name "", and all commands.
func allCommands(p *cmdline.Program) []*cmdline.Command {
	out := []*cmdline.Command{&p.Root}
	for i := range p.Commands {
		if !p.Commands[i].Hidden {
			out = append(out, &p.Commands[i])
		}
	}
	return out
}

// TestEveryOptionIsDescribed fails for a new flag that has no entry in
// optionDetails, or no text of one short idea.
func TestEveryOptionIsDescribed(t *testing.T) {
	for _, c := range allCommands(commandLine()) {
		for _, o := range c.Options {
			name := strings.TrimSpace(c.Name + " --" + o.Name)
			switch {
			case !slices.Contains(optionGroups, o.Group):
				t.Errorf("%s is in no group: add it to optionDetails", name)
			case !o.IsBool && (o.Metavar == "" || o.Metavar == "VALUE" || len(o.Metavar) > 12):
				t.Errorf("%s has no short name for its value: %q", name, o.Metavar)
			case o.Text == "" || len(o.Text) > 120:
				t.Errorf("%s has no text, or one of more than 120 letters: %q", name, o.Text)
			case strings.HasSuffix(o.Text, ".") || strings.Contains(o.Text, "`") || strings.Contains(o.Text, "(default"):
				t.Errorf("the text of %s ends with a full stop, or has a backquote or its default in it: %q", name, o.Text)
			case len(o.Words) > 0 && o.Default != "" && !slices.Contains(o.Words, o.Default):
				t.Errorf("%s is %q by default, which is none of %v", name, o.Default, o.Words)
			}
		}
	}
}

// An entry that no flag has is a flag's that was renamed.
func TestNoDetailIsLeftOver(t *testing.T) {
	commands := allCommands(commandLine())
	for key := range optionDetails() {
		command, name, both := strings.Cut(key, " ")
		if !both {
			command, name = "", key
		}
		if !slices.ContainsFunc(commands, func(c *cmdline.Command) bool { return (!both || c.Name == command) && c.Option(name) != nil }) {
			t.Errorf("optionDetails has %q, and no command has such a flag", key)
		}
	}
}

// TestEveryCommandIsDescribed fails for a new command that has no entry in pages.
func TestEveryCommandIsDescribed(t *testing.T) {
	p := commandLine()
	for _, c := range allCommands(p) {
		switch {
		case c.Summary == "" || len(c.Summary) > 66:
			t.Errorf("%q has no summary, or one that does not fit into a line: %q", c.Name, c.Summary)
		case len(c.Synopsis) == 0 || !strings.HasPrefix(c.Synopsis[0], "memtrace"):
			t.Errorf("%q has no synopsis: %q", c.Name, c.Synopsis)
		case len(c.Examples) == 0 || len(c.Exit) == 0:
			t.Errorf("%q has no examples or exit codes: add it to pages", c.Name)
		case strings.Contains(c.Description, "Examples:"):
			t.Errorf("the examples of %q belong in pages, not in its description", c.Name)
		}
		for _, see := range c.See {
			topic, isTopic := strings.CutPrefix(see, "help ")
			command, isCommand := strings.CutSuffix(see, " --help")
			if isTopic && p.Topic(topic) == nil || isCommand && p.Find(command) == nil {
				t.Errorf("%q refers to %q, which there is not", c.Name, see)
			}
		}
	}
	for name := range pages() {
		if name != "" && p.Find(name) == nil {
			t.Errorf("pages has %q, which is no command", name)
		}
	}
}

// Examples and topics show commands and options that there are.
func TestExamplesAreOfThisProgram(t *testing.T) {
	p := commandLine()
	for _, c := range allCommands(p) {
		for _, e := range c.Examples {
			checkExample(t, p, e.Line)
		}
	}
	for i := range p.Topics {
		for line := range strings.Lines(p.Topics[i].Text) {
			if strings.HasPrefix(line, "  ") && strings.Contains(line, "memtrace ") {
				checkExample(t, p, line)
			}
		}
	}
}

func checkExample(t *testing.T, p *cmdline.Program, line string) {
	t.Helper()
	_, rest, _ := strings.Cut(line, "memtrace ")
	c := &p.Root
	for i, word := range strings.Fields(rest) {
		switch name := strings.TrimLeft(word, "-"); {
		case word == "--" || strings.ContainsAny(word, "|>&") && !strings.HasPrefix(word, "'"):
			return
		case i == 0 && p.Find(word) != nil:
			c = p.Find(word)
		case i == 0 && !strings.HasPrefix(word, "-"):
			t.Errorf("%q: there is no command %q", strings.TrimSpace(line), word)
		case strings.HasPrefix(word, "-") && name != "" && name != "help" && c.Option(strings.Split(name, "=")[0]) == nil:
			t.Errorf("%q: memtrace %s has no option %s", strings.TrimSpace(line), c.Name, word)
		}
	}
}

func TestHelpFits(t *testing.T) {
	p := commandLine()
	for _, width := range []int{cmdline.MinWidth, 60, cmdline.DefaultWidth, cmdline.MaxWidth} {
		text := p.Overview(width)
		for _, c := range allCommands(p)[1:] {
			help := p.Help(c, width)
			for _, o := range c.Options {
				if n := strings.Count(help, "--"+o.Name+" ") + strings.Count(help, "--"+o.Name+"\n") + strings.Count(help, "--"+o.Name+"="); n == 0 {
					t.Errorf("help of %s at %d columns has no --%s", c.Name, width, o.Name)
				}
			}
			text += help
		}
		for line := range strings.Lines(text) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("at %d columns a line of help has %d: %q", width, n, line)
			}
		}
	}
	for i := range p.Topics {
		for line := range strings.Lines(p.Topics[i].Text) {
			if utf8.RuneCountInString(line) > cmdline.DefaultWidth+1 {
				t.Errorf("topic %s has a line of more than 80 columns: %q", p.Topics[i].Name, line)
			}
		}
	}
}

// Each option stands in its help once, in one group.
func TestEachOptionStandsOnce(t *testing.T) {
	p := commandLine()
	for _, c := range allCommands(p)[1:] {
		rows := make(map[string]int)
		for line := range strings.Lines(p.Help(c, cmdline.DefaultWidth)) {
			row := strings.TrimSpace(line[min(len(line), 6):])
			if strings.HasPrefix(line, "  ") && strings.HasPrefix(row, "--") && strings.HasPrefix(strings.TrimLeft(line[:6], " "), "-") ||
				strings.HasPrefix(line, "      --") {
				name, _, _ := strings.Cut(strings.TrimPrefix(row, "--"), " ")
				name, _, _ = strings.Cut(name, "=")
				rows[name]++
			}
		}
		for _, o := range c.Options {
			if rows[o.Name] != 1 {
				t.Errorf("--%s stands %d times in the help of %s", o.Name, rows[o.Name], c.Name)
			}
		}
		if len(rows) != len(c.Options) {
			t.Errorf("the help of %s has %d options, and there are %d", c.Name, len(rows), len(c.Options))
		}
	}
}

func TestReferenceIsUpToDate(t *testing.T) {
	text, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != commandLine().Markdown() {
		t.Error("docs/cli.md is not what the commands say: make docs writes it")
	}
}
