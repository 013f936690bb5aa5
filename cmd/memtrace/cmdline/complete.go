package cmdline

import (
	"embed"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Candidate is a word that may stand next, and what it is.
type Candidate struct{ Word, Text string }

// Machine lists what there is to choose from on this machine.
type Machine interface {
	Processes() []Candidate
	Names() []Candidate
	Containers() []Candidate
	Groups() []Candidate
}

// Answer is what a shell is told: candidates, or what it is to complete itself.
type Answer struct {
	Candidates []Candidate
	Shell      Values // Files or Programs: what the shell knows better; else NoValues
	Words      int    // with Programs: how many of the last words are the program's
}

// Complete says what may stand in the place of the last of the words, which
// are those after the program's name.
func (p *Program) Complete(words []string, m Machine) Answer {
	if len(words) == 0 {
		words = []string{""}
	}
	c, named := &p.Root, false
	used := make(map[string]bool)
	last := len(words) - 1
	for i := 0; i < last; i++ {
		word := words[i]
		switch {
		case word == "--":
			return c.argument(words[i+1:], m)
		case len(word) > 1 && word[0] == '-':
			o, hasValue := c.given(word)
			if o == nil {
				continue
			}
			used[o.Name] = true
			if o.IsBool || hasValue {
				continue
			}
			if i++; i == last { // the option's value is what is wanted
				return o.complete("", words[last], m)
			}
		case named:
			return c.argument(words[i:], m)
		default:
			if c = p.Find(word); c == nil {
				return Answer{}
			}
			named = true
		}
	}
	return p.next(c, named, used, words[last], m)
}

// given finds the option that a word sets, and says whether its value is in it.
func (c *Command) given(word string) (*Option, bool) {
	name, _, hasValue := strings.Cut(strings.TrimLeft(word, "-"), "=")
	return c.Option(name), hasValue
}

// next completes an option, a command or an argument.
func (p *Program) next(c *Command, named bool, used map[string]bool, word string, m Machine) Answer {
	if before, value, found := strings.Cut(word, "="); found && strings.HasPrefix(word, "-") {
		if o, _ := c.given(word); o != nil && !o.IsBool {
			return o.complete(before+"=", value, m)
		}
	}
	if strings.HasPrefix(word, "-") {
		return Answer{Candidates: c.unused(used, word)}
	}
	if named {
		return c.argument([]string{word}, m)
	}
	var out []Candidate
	for _, c := range p.visible() {
		out = append(out, Candidate{c.Name, c.Summary})
	}
	return Answer{Candidates: matching(out, "", word)}
}

// unused are the options that may yet be given.
func (c *Command) unused(used map[string]bool, word string) []Candidate {
	var out []Candidate
	for i := range c.Options {
		o := &c.Options[i]
		if used[o.Name] && !o.Many {
			continue
		}
		name, _, _ := strings.Cut(o.Long(), " ")
		out = append(out, Candidate{name, o.Text})
		if o.Short != "" && !strings.HasPrefix(word, "--") {
			out = append(out, Candidate{"-" + o.Short, o.Text})
		}
	}
	return matching(out, "", word)
}

// argument completes the last of a command's arguments.
func (c *Command) argument(words []string, m Machine) Answer {
	o := Option{Detail: c.Arguments}
	answer := o.complete("", words[len(words)-1], m)
	answer.Words = len(words)
	return answer
}

// complete completes the value of an option; all candidates begin with prefix.
func (o *Option) complete(prefix, word string, m Machine) Answer {
	if o.Values == Files || o.Values == Programs {
		return Answer{Shell: o.Values}
	}
	if comma := strings.LastIndexByte(word, ','); comma >= 0 && o.Many {
		prefix, word = prefix+word[:comma+1], word[comma+1:]
	}
	return Answer{Candidates: matching(o.candidates(m), prefix, word)}
}

func (o *Option) candidates(m Machine) []Candidate {
	switch o.Values {
	case Processes:
		return m.Processes()
	case Names:
		return m.Names()
	case Containers:
		return m.Containers()
	case Groups:
		return m.Groups()
	}
	var out []Candidate
	for _, word := range slices.Concat(o.Detail.Words, o.Hints) {
		out = append(out, Candidate{Word: word})
	}
	return out
}

func matching(all []Candidate, prefix, word string) []Candidate {
	var out []Candidate
	for _, c := range all {
		if strings.HasPrefix(c.Word, word) {
			out = append(out, Candidate{prefix + c.Word, c.Text})
		}
	}
	return out
}

// Write writes the answer for a shell: a line that says what the shell is to
// complete itself, and one for each candidate, its text behind a tab. Process
// names may have anything in them, so what would break a line is left out.
func (a *Answer) Write(w io.Writer) error {
	var b strings.Builder
	switch a.Shell {
	case Files:
		b.WriteString(":files\n")
	case Programs:
		fmt.Fprintf(&b, ":program %d\n", a.Words)
	default:
		b.WriteString(":words\n")
	}
	for _, c := range a.Candidates {
		if word := oneLine(c.Word); word == c.Word {
			fmt.Fprintf(&b, "%s\t%s\n", word, oneLine(c.Text))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// oneLine takes control characters out of a text.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
}

//go:embed shells
var shells embed.FS

// Shells are those that have a Script.
func Shells() []string { return []string{"bash", "zsh", "fish"} }

// Script is what a shell has to read so that it completes the program's words.
func (p *Program) Script(shell string) (string, error) {
	text, err := shells.ReadFile("shells/" + shell)
	if err != nil {
		return "", fmt.Errorf("no completion for the shell %.40q", shell)
	}
	return strings.ReplaceAll(string(text), "PROGRAM", p.Name), nil
}
