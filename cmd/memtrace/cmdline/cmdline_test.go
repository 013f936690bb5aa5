package cmdline

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"github.com/memtrace/memtrace/testdata/costtest"
)

func TestNearest(t *testing.T) {
	words := []string{"trace", "run", "leaks", "top", "stall-budget", "definite", "indirect"}
	for typed, want := range map[string]string{
		"leak": "leaks", "laeks": "leaks", "leaky": "leaks", "stall": "stall-budget", "definit": "definite", "defniite": "definite",
		"tpo": "top", "rnu": "run", "": "", "x": "", "nonsense": "", strings.Repeat("leaks", 1000): "",
	} {
		if got := Nearest(typed, words); got != want {
			t.Errorf("Nearest(%.20q) is %q, want %q", typed, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"abc", "", 3}, {"", "abc", 3}, {"abc", "abc", 0}, {"abc", "abd", 1}, {"abc", "acb", 1}, {"abc", "abcd", 1}, {"abcd", "abc", 1},
		{"kitten", "sitting", 3}, {"ca", "abc", 3},
	} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("distance(%q, %q) is %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func FuzzNearest(f *testing.F) {
	f.Add("leak", "leaks")
	f.Add("\xff", "ä")
	f.Fuzz(func(t *testing.T, typed, word string) {
		defer costtest.Bound(t)()
		if got := Nearest(typed, []string{word}); got != "" && got != word {
			t.Errorf("Nearest invents %q", got)
		}
	})
}

// Whatever the width, no line is wider, and no word is lost.
func FuzzWrap(f *testing.F) {
	f.Add("a text of words", 5)
	f.Add("averylongword,with/places[to]break", 8)
	f.Add("ä ö üüüüüüüüüüüüüüü", 3)
	f.Fuzz(func(t *testing.T, text string, width int) {
		defer costtest.Bound(t)()
		width = 1 + (width&0x7fffffff)%120
		text = strings.ToValidUTF8(text, "?")
		var joined strings.Builder
		for _, line := range wrap(text, width) {
			if utf8.RuneCountInString(line) > width {
				t.Errorf("the line %q is wider than %d", line, width)
			}
			joined.WriteString(line)
		}
		without := func(s string) string { return strings.Join(strings.Fields(s), "") }
		if without(joined.String()) != without(text) {
			t.Errorf("%q became %q", text, joined.String())
		}
	})
}

// program is a small command line.
func program() *Program {
	details := map[string]Detail{
		"pid":    {Group: "What", Metavar: "PID", Values: Processes},
		"kind":   {Group: "What", Metavar: "KIND", Words: []string{"alloc", "free", "fault"}},
		"sort":   {Group: "Show", Metavar: "KEY", Words: []string{"live", "count"}},
		"out":    {Group: "Show", Metavar: "FILE", Values: Files},
		"follow": {Group: "What"},
		"quiet":  {Group: "Show"},
	}
	flags := []cli.Flag{
		&cli.StringSliceFlag{Name: "pid", Aliases: []string{"p"}, Usage: "trace this process"},
		&cli.StringSliceFlag{Name: "kind", Usage: "these kinds"},
		&cli.StringFlag{Name: "sort", Value: "live", Usage: "order of `WHATEVER`"},
		&cli.PathFlag{Name: "out", Usage: "write to this file"},
		&cli.BoolFlag{Name: "follow", Value: true, Usage: "do not trace children"},
		&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "say less"},
		&cli.BoolFlag{Name: "secret", Hidden: true},
		&cli.DurationFlag{Name: "unknown", Value: time.Second, Usage: "wait `TIME`"},
	}
	return &Program{
		Name: "prog", Summary: "does something", Groups: []string{"What", "Show"},
		Root: Command{Synopsis: []string{"prog [options]"}, Options: Describe("", flags, details)},
		Commands: []Command{
			{Name: "run", Summary: "run it", Synopsis: []string{"prog run [options] -- COMMAND"}, Options: Describe("run", flags, details), Arguments: Detail{Values: Programs}},
			{Name: "shell", Summary: "name one", Synopsis: []string{"prog shell"}, Arguments: Detail{Words: []string{"bash", "fish"}}},
			{Name: "hidden", Hidden: true},
		},
		Topics: []Topic{{Name: "ci", Summary: "In CI", Text: "In CI\n\nUse it.\n\n  prog run\n"}},
	}
}

func TestDescribe(t *testing.T) {
	c := program().Commands[0]
	for name, want := range map[string]string{
		"pid": "trace this process", "kind": "these kinds: alloc, free, fault", "sort": "order of WHATEVER: live (default), count",
		"unknown": "wait TIME (default: 1s)",
	} {
		if o := c.Option(name); o == nil || o.Sentence() != want {
			t.Errorf("%s is described as %+v, want %q", name, o, want)
		}
	}
	if o := c.Option("follow"); o.Long() != "--follow=false" {
		t.Errorf("what is on is switched off by %s", o.Long())
	}
	if o := c.Option("unknown"); o.Long() != "--unknown TIME" || o.Group != "" {
		t.Errorf("without a detail, it is %s in %q", o.Long(), o.Group)
	}
	if c.Option("secret") != nil {
		t.Error("a hidden flag is described")
	}
}

// somewhere has two processes, one of a hostile name.
type somewhere struct{}

func (somewhere) Processes() []Candidate {
	return []Candidate{{"12", "ok"}, {"123", "evil\n:files\x1b[2J\tname"}}
}
func (somewhere) Names() []Candidate      { return []Candidate{{"two\nlines", ""}, {"plain", ""}} }
func (somewhere) Containers() []Candidate { return nil }
func (somewhere) Groups() []Candidate     { return nil }

func TestComplete(t *testing.T) {
	for line, want := range map[string]string{
		"":                       "run shell",
		"ru":                     "run",
		"run --s":                "--sort",
		"run -":                  "--pid -p --kind --sort --out --follow=false --quiet -q --unknown",
		"run --quiet --q":        "",
		"run -q --q":             "",
		"run --pid 1 --p":        "--pid",
		"run --sort ":            "live count",
		"run --sort l":           "live",
		"run --sort=l":           "--sort=live",
		"run --kind alloc,f":     "alloc,free alloc,fault",
		"run --kind=alloc,f":     "--kind=alloc,free --kind=alloc,fault",
		"-p ":                    "12 123",
		"-p 12,":                 "12,12 12,123",
		"run --out ":             ":files",
		"run --out=x":            ":files",
		"run ":                   ":program 1",
		"run -- ":                ":program 1",
		"run --sort live ls -":   ":program 2",
		"run --sort live -- a b": ":program 2",
		"run --bogus x":          ":program 1",
		"shell ":                 "bash fish",
		"shell f":                "fish",
		"nonsense -":             "",
		"hid":                    "",
	} {
		var out strings.Builder
		answer := program().Complete(strings.Split(line, " "), somewhere{})
		if err := answer.Write(&out); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		got := strings.TrimSpace(strings.TrimPrefix(lines[0], ":words"))
		for _, l := range lines[1:] {
			word, _, _ := strings.Cut(l, "\t")
			got = strings.TrimSpace(got + " " + word)
		}
		if got != want {
			t.Errorf("%q is completed by %q, want %q", line, got, want)
		}
	}
}

// A process's name is its own choice: it makes no further lines or columns.
func TestHostileNamesMakeNoLines(t *testing.T) {
	var out strings.Builder
	answer := Answer{Candidates: append(somewhere{}.Processes(), somewhere{}.Names()...)}
	if err := answer.Write(&out); err != nil {
		t.Fatal(err)
	}
	const want = ":words\n12\tok\n123\tevil:files[2Jname\nplain\t\n"
	if out.String() != want {
		t.Errorf("a shell is told %q, want %q", out.String(), want)
	}
}

func TestHelpAtEachWidth(t *testing.T) {
	p := program()
	for width := MinWidth; width <= MaxWidth; width++ {
		text := p.Overview(width) + p.Help(&p.Commands[0], width) + p.About(&p.Topics[0], width)
		for line := range strings.Lines(text) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
				t.Fatalf("at %d columns a line has %d: %q", width, n, line)
			}
		}
	}
	if Width(0) != DefaultWidth || Width(500) != MaxWidth || Width(10) != MinWidth || Width(90) != 90 {
		t.Error("the width is not that of the terminal, within limits")
	}
}

// Text that means something to roff stands in the page as it is.
func TestManualsEscape(t *testing.T) {
	m := new(manual)
	m.text(".not a macro 'nor this \\nor-that.")
	if want := `\&.not a macro 'nor this \enor\-that.` + "\n"; m.String() != want {
		t.Errorf("it is written as %q, want %q", m.String(), want)
	}
	pages := program().ManPages(time.Unix(0, 0))
	if !strings.HasPrefix(pages["prog.1"], ".Dd January 1, 1970\n.Dt PROG 1\n") {
		t.Errorf("the page begins with %.60q", pages["prog.1"])
	}
	if _, ok := pages["prog-hidden.1"]; ok || len(pages) != 3 {
		t.Error("a hidden command has a page")
	}
	if !strings.Contains(pages["prog-run.1"], ".It Fl p , Fl \\-pid Ar \"PID\"\nTrace this process.\n") {
		t.Errorf("--pid is not in the page:\n%s", pages["prog-run.1"])
	}
}

// A format of a file has a page of section 5, which the page of its command refers to, and the program's own.
func TestFormatsHavePages(t *testing.T) {
	p := program()
	p.Formats = []Format{{
		Name: "prog.yaml", Summary: "what prog is to do", Description: "Text.", See: []string{"prog-run"},
		Groups: []Keys{{Title: "Keys", Keys: []Key{
			{Name: "a-key", Metavar: "TIME", Text: "how long", Default: "5s"}, {Name: "other", Text: "more"},
		}}},
		Paths:    []Row{{Key: "/etc/prog.yaml", Text: "the machine's"}},
		Examples: []FileExample{{Text: "ten", File: "\ntop:\n  a-key: 10s\n"}},
	}}
	pages := p.ManPages(time.Unix(0, 0))
	for _, want := range []string{
		".Dt PROG.YAML 5\n", ".It Ic a\\-key : Ar \"TIME\"\nHow long.\nThe default is 5s.\n", ".It Ic other :\nMore.\n.El\n",
		"top:\n  a\\-key: 10s\n.Ed\n", ".Sh SEE ALSO\n.Xr prog-run 1\n",
	} {
		if page := pages["prog.yaml.5"]; !strings.Contains(page, want) {
			t.Errorf("%q is not in the page:\n%s", want, page)
		}
	}
	for name, want := range map[string]bool{"prog.1": true, "prog-run.1": true, "prog-shell.1": false} {
		if strings.Contains(pages[name], ".Xr prog.yaml 5\n") != want {
			t.Errorf("%s refers to prog.yaml(5), or not:\n%s", name, pages[name])
		}
	}
}

func TestScripts(t *testing.T) {
	for _, shell := range Shells() {
		text, err := program().Script(shell)
		if err != nil || strings.Contains(text, "PROGRAM") || !strings.Contains(text, "prog") {
			t.Errorf("%s: %v, %.80q", shell, err, text)
		}
	}
	if _, err := program().Script("../model.go"); err == nil {
		t.Error("any file is a script")
	}
	if !slices.Contains(Shells(), "zsh") {
		t.Error("no zsh")
	}
}
