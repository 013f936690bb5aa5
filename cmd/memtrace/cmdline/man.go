package cmdline

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// ManPages returns the program's manual pages by their files' names, in the language mdoc(7): section 1 has the
// commands, section 5 the files that they read.
func (p *Program) ManPages(date time.Time) map[string]string {
	pages := map[string]string{p.Name + ".1": p.manOverview(date)}
	for _, c := range p.visible() {
		pages[p.Name+"-"+c.Name+".1"] = p.manCommand(c, date)
	}
	for i := range p.Formats {
		pages[p.Formats[i].Name+".5"] = p.manFormat(&p.Formats[i], date)
	}
	return pages
}

// A manual is a page in mdoc.
type manual struct{ strings.Builder }

func (m *manual) macro(format string, args ...any) { fmt.Fprintf(m, "."+format+"\n", args...) }

func (p *Program) manHead(name string, section int, summary string, date time.Time) *manual {
	m := new(manual)
	date = date.UTC()
	m.macro("Dd %s %d, %d", date.Month(), date.Day(), date.Year())
	m.macro("Dt %s %d", strings.ToUpper(name), section)
	m.macro("Os")
	m.macro("Sh NAME")
	m.macro("Nm %s", name)
	m.macro("Nd %s", roff(summary))
	return m
}

func (m *manual) synopsis(program string, lines []string) {
	m.macro("Sh SYNOPSIS")
	for i, line := range lines {
		if i > 0 {
			m.macro("br")
		}
		m.macro("Nm %s", program)
		m.text(strings.TrimPrefix(line, program+" "))
	}
}

func (p *Program) manOverview(date time.Time) string {
	m := p.manHead(p.Name, 1, p.Summary, date)
	m.synopsis(p.Name, p.Root.Synopsis)
	m.macro("Sh DESCRIPTION")
	m.prose(p.Root.Description)
	m.macro("Ss Commands")
	m.macro("Bl -tag -width Ds")
	for _, c := range p.visible() {
		m.macro("It Cm %s", c.Name)
		m.text(sentence(upperFirst(c.Summary)))
		m.text("See")
		m.macro("Xr %s-%s 1 .", p.Name, c.Name)
	}
	m.macro("El")
	for i := range p.Topics {
		m.macro("Ss %s", roff(upperFirst(p.Topics[i].Summary)))
		_, text, _ := strings.Cut(p.Topics[i].Text, "\n")
		m.prose(text)
	}
	m.exit(p.Root.Exit)
	m.examples(p.Root.Examples)
	m.seeAlso(p, nil)
	return m.String()
}

func (p *Program) manCommand(c *Command, date time.Time) string {
	m := p.manHead(p.Name+"-"+c.Name, 1, c.Summary, date)
	m.synopsis(p.Name, c.Synopsis)
	m.macro("Sh DESCRIPTION")
	if c.Description == "" {
		m.text(sentence(upperFirst(c.Summary)))
	}
	m.prose(c.Description)
	for _, g := range c.groups(p.Groups) {
		if g == "" {
			m.macro("Ss Other options")
		} else {
			m.macro("Ss %s", roff(g))
		}
		m.options(c.group(g))
	}
	m.exit(c.Exit)
	m.examples(c.Examples)
	m.seeAlso(p, c)
	return m.String()
}

func (m *manual) options(options []Option) {
	m.macro("Bl -tag -width Ds")
	for i := range options {
		o := &options[i]
		name, _, _ := strings.Cut(o.Long(), " ")
		item := "Fl " + roff(strings.TrimPrefix(name, "-"))
		if o.Short != "" {
			item = "Fl " + o.Short + " , " + item
		}
		if !o.IsBool {
			item += ` Ar "` + strings.ReplaceAll(roff(o.Metavar), `"`, `\(dq`) + `"`
		}
		m.macro("It %s", item)
		m.text(sentence(upperFirst(o.Sentence())))
	}
	m.macro("El")
}

func (m *manual) exit(rows []Row) {
	if len(rows) == 0 {
		return
	}
	m.macro("Sh EXIT STATUS")
	m.macro("Bl -tag -width other")
	for _, row := range rows {
		m.macro("It %s", row.Key)
		m.text(sentence(upperFirst(row.Text)))
	}
	m.macro("El")
}

func (m *manual) examples(examples []Example) {
	if len(examples) == 0 {
		return
	}
	m.macro("Sh EXAMPLES")
	for i, e := range examples {
		if i > 0 {
			m.macro("Pp")
		}
		m.text(sentence(upperFirst(e.Text)))
		m.literal(e.Line)
	}
}

func (m *manual) literal(lines ...string) {
	m.macro("Bd -literal -offset indent")
	for _, line := range lines {
		indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
		for _, part := range wrapLiteral(line, 76) {
			m.raw(indent + part)
		}
	}
	m.macro("Ed")
}

// wrapLiteral keeps a line as it is but for its indentation, unless it is too long.
func wrapLiteral(line string, width int) []string {
	if columns(line) <= width {
		return []string{strings.TrimLeft(line, " ")}
	}
	return wrap(line, width)
}

func (m *manual) seeAlso(p *Program, c *Command) {
	m.macro("Sh SEE ALSO")
	var names []string
	if c != nil {
		names = append(names, p.Name)
	}
	for _, other := range p.visible() {
		if c == nil || other.Name != c.Name {
			names = append(names, p.Name+"-"+other.Name)
		}
	}
	var formats []string
	for i := range p.Formats {
		if f := &p.Formats[i]; c == nil || slices.Contains(f.See, p.Name+"-"+c.Name) {
			formats = append(formats, f.Name)
		}
	}
	m.references(names, formats)
}

// references are pages of section 1 and of section 5, each in its order.
func (m *manual) references(commands, formats []string) {
	var pages []string
	for _, name := range slices.Sorted(slices.Values(commands)) {
		pages = append(pages, name+" 1")
	}
	for _, name := range slices.Sorted(slices.Values(formats)) {
		pages = append(pages, name+" 5")
	}
	if len(pages) > 0 {
		m.macro("Xr %s", strings.Join(pages, " ,\n.Xr "))
	}
}

// prose writes paragraphs; lines that begin with blanks are literal.
func (m *manual) prose(text string) {
	for i, paragraph := range strings.Split(strings.Trim(text, "\n"), "\n\n") {
		var flow, literal []string
		for line := range strings.SplitSeq(paragraph, "\n") {
			if strings.HasPrefix(line, " ") {
				literal = append(literal, strings.TrimPrefix(line, "  "))
			} else {
				flow = append(flow, line)
			}
		}
		if i > 0 && len(flow) > 0 {
			m.macro("Pp")
		}
		m.text(strings.Join(flow, " "))
		if len(literal) > 0 {
			m.literal(literal...)
		}
	}
}

// text writes sentences, each on lines of its own.
func (m *manual) text(text string) {
	for _, s := range sentences(text) {
		for _, line := range wrapRoff(s) {
			m.raw(line)
		}
	}
}

// wrapRoff breaks a text into lines of at most 80 bytes once they are escaped, which is what a linter looks at.
func wrapRoff(text string) (lines []string) {
	isLong := func(line string) bool { return len(roff(line)) > 80 }
	for width := 76; width >= 40; width -= 4 {
		if lines = wrap(text, width); !slices.ContainsFunc(lines, isLong) {
			break
		}
	}
	return lines
}

// raw writes a line that is no macro.
func (m *manual) raw(line string) {
	line = strings.TrimRight(line, " ")
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
		m.WriteString(`\&`)
	}
	m.WriteString(roff(line))
	m.WriteByte('\n')
}

// roff escapes what roff reads as more than a letter.
func roff(s string) string {
	return strings.NewReplacer(`\`, `\e`, "-", `\-`, "…", "...", "×", `\(mu`, "→", `\(->`).Replace(s)
}

// sentences splits a text behind each full stop.
func sentences(text string) []string {
	var out []string
	for {
		end := strings.Index(text, ". ")
		if end < 0 {
			return append(out, text)
		}
		out, text = append(out, text[:end+1]), strings.TrimSpace(text[end+1:])
	}
}

// sentence ends a text with a full stop.
func sentence(s string) string {
	if s == "" || strings.HasSuffix(s, ".") {
		return s
	}
	return s + "."
}

func upperFirst(s string) string {
	if s == "" || !('a' <= s[0] && s[0] <= 'z') {
		return s
	}
	return string(s[0]-'a'+'A') + s[1:]
}
